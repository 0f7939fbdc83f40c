// A data set whose shards are read by one rank each is the same on every rank as one that the rank reads alone.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <memory>
#include <new>

#include "bert_hpc/data/shared_reading.hpp"
#include "support/world.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

using ::test::world;

data::ReadingRanks reading_ranks() {
  return {world().rank(), world().size(),
          [](std::string text, int root) { return world().broadcast(std::move(text), root); }};
}

/// Shards of a task in a folder that rank 0 makes and removes. Collective.
class Shards {
 public:
  Shards(const tasks::Task* task, int count) {
    if (world().rank() == 0) folder_ = std::make_unique<bert_hpc::test::ScratchDirectory>();
    path_ = world().broadcast(folder_ ? folder_->path.string() : "", 0);
    for (int i = 0; folder_ && i < count; ++i) {
      bert_hpc::test::write_shard(file(i),
                                  bert_hpc::test::make_content(task, 4 + 2 * (i % 3), static_cast<std::uint64_t>(i)));
    }
    world().barrier();
    options.paths = {path_ + "/*.h5"};
    options.limits.task = task;
    options.source_index = true;
  }
  ~Shards() { world().barrier(); }
  std::string file(int i) const { return path_ + "/" + std::to_string(i) + ".h5"; }

  data::ShardReaderOptions options;

 private:
  std::unique_ptr<bert_hpc::test::ScratchDirectory> folder_;
  std::string path_;
};

template <class A, class B>
bool equal(const A& a, const B& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool same(data::ShardReader& a, data::ShardReader& b) {
  bool all = a.files() == b.files() && a.seals() == b.seals() && a.info().task == b.info().task &&
             data::ShardInfo::fields(a.info()) == data::ShardInfo::fields(b.info()) &&
             a.special_ids() == b.special_ids() && equal(a.table().lengths(), b.table().lengths()) &&
             equal(a.classes(), b.classes()) && equal(a.values(), b.values()) && equal(a.sets(), b.sets()) &&
             equal(a.spans(), b.spans()) && equal(a.levels(), b.levels()) && equal(a.groups(), b.groups()) &&
             equal(a.contexts(), b.contexts()) && equal(a.source_index(), b.source_index()) &&
             equal(a.word_classes(), b.word_classes()) && a.words().offsets == b.words().offsets &&
             a.words().tokens == b.words().tokens;
  for (std::int64_t sample = 0; all && sample < a.samples(); ++sample) {
    std::vector<std::int32_t> ids[2], types[2];
    for (int i = 0; i < 2; ++i) {
      ids[i].resize(static_cast<std::size_t>(a.table().length(sample)));
      types[i].resize(ids[i].size());
      (i == 0 ? a : b).read(sample, ids[i].data(), types[i].data());
    }
    all = ids[0] == ids[1] && types[0] == types[1];
  }
  return all;
}

std::string refusal(const data::ShardReaderOptions& options) {
  try {
    const data::ShardReader reader(options);
  } catch (const core::Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a data set that ranks read together is that which each reads alone, of every task") {
  for (const tasks::Task* const task : tasks::all()) {
    for (const std::int64_t read_at_once : {0, 1 << 20}) {  // tokens later, or with the rest
      Shards shards(task, 7);
      shards.options.read_at_once = read_at_once;
      data::ShardReader alone(shards.options);
      const std::int64_t bytes = alone.bytes_read();
      shards.options.ranks = reading_ranks();
      data::ShardReader together(shards.options);
      const std::int64_t all_bytes = world().sum(together.bytes_read());
      CHECK_FALSE(world().any(all_bytes != bytes));  // each file by one rank
      CHECK_FALSE(world().any(!same(alone, together)));
    }
  }
}

TEST_CASE("every rank names the shards that cannot be used, whichever rank read them") {
  Shards shards(tasks::find("classification"), 9);
  shards.options.ranks = reading_ranks();
  if (world().rank() == 0) {
    for (const int damaged : {2, 5, 7}) std::ofstream(shards.file(damaged)) << "no shard";
  }
  world().barrier();
  const std::string found = refusal(shards.options);
  for (const int damaged : {2, 5, 7}) {
    CHECK_THAT(found, ContainsSubstring("'" + shards.file(damaged) + "' as a shard: it is not a bert_hpc shard"));
  }
  CHECK_FALSE(world().any(found != world().broadcast(found, 0)));
  shards.options.paths = {"/no such folder/*.h5"};
  CHECK_THAT(refusal(shards.options), ContainsSubstring("there is no folder '/no such folder'"));
}

TEST_CASE("where one rank fails, the others learn it and wait for nothing") {
  const std::vector<std::string> files(9, "a.h5");
  const int last = world().size() - 1;
  const auto read = [&](std::size_t f) {
    if (world().rank() == last && f > 0) throw std::bad_alloc();
    return data::ShardContent{};
  };
  std::vector<std::string> problems;
  const auto add = [&](std::size_t, const data::ShardContent& content) {
    if (!content.problem.empty()) problems.push_back(content.problem);
  };
  const auto ranks = reading_ranks();
  data::SharedReading reading(ranks);
  bool failed = false;
  try {
    reading.each(files, 9, read, add);
  } catch (const std::bad_alloc&) {
    failed = true;
  }
  CHECK(failed == (world().rank() == last));
  const std::string expected = "a.h5: rank " + std::to_string(last) + " failed while it read it.";
  CHECK(problems == std::vector<std::string>(failed ? 0 : 1, expected));
}

TEST_CASE("parts of shards hold all of them once, and no rank is without work") {
  for (const std::size_t files : {1, 2, 7, 100, 10000}) {
    for (const std::int64_t mean : {1, 10000, 1 << 24, 1 << 30}) {
      for (const int ranks : {1, 2, 3, 8, 200}) {
        const auto parts = data::parts_of(files, static_cast<std::int64_t>(files) * mean, ranks);
        std::size_t next = 0;
        for (const data::Part& part : parts) {
          REQUIRE(part.begin == next);
          REQUIRE(part.end > part.begin);
          REQUIRE((part.end - part.begin == 1 || static_cast<std::int64_t>(part.end - part.begin) * mean <= 32 << 20));
          next = part.end;
        }
        REQUIRE(next == files);
        REQUIRE(parts.size() >= std::min(files, static_cast<std::size_t>(ranks)));
      }
    }
  }
}
