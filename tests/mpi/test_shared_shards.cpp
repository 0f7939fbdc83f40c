// A data set whose shards are read by one rank each is the same on every rank as one that the rank reads alone.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <memory>
#include <new>
#include <numeric>

#include "bert_hpc/data/shared_reading.hpp"
#include "support/world.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

using ::test::world;

data::ReadingRanks reading_ranks() {
  return {.rank = world().rank(),
          .count = world().size(),
          .checks_files = world().rank() == 1,
          .broadcast = [](std::span<std::byte> bytes, int root) { world().broadcast(bytes, root); },
          .any = [](bool value) { return world().any(value); }};
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
  const std::vector<std::int64_t> sizes(9, 1);
  const int last = world().size() - 1;
  const auto ranks = reading_ranks();
  const auto fails_alone = [&](const std::function<bool()>& work) {
    bool thrown = false, well = false;
    try {
      well = work();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    return thrown == (world().rank() == last) && !well;
  };
  const auto fail = [&] {
    if (world().rank() == last) throw std::bad_alloc();
  };
  const auto read = [](std::size_t) { return data::ShardContent{}; };
  const auto add = [](std::size_t, const data::ShardContent&) {};
  CHECK(fails_alone([&] {
    return data::SharedReading(ranks).each(
        sizes,
        [&](std::size_t f) {
          if (f > 0) fail();
          return data::ShardContent{};
        },
        add);
  }));
  for (const std::size_t failing : {0u, 5u, 8u}) {  // of the first shard, of one between, of the last
    CHECK(fails_alone([&] {
      return data::SharedReading(ranks).each(sizes, read, [&](std::size_t f, const data::ShardContent&) {
        if (f == failing) fail();
      });
    }));
  }
  // Rank 0 lists.
  bool thrown = false, listed = false;
  try {
    listed = data::SharedReading(ranks).once([]() -> data::ListedShards { throw std::bad_alloc(); }).has_value();
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown == (world().rank() == 0));
  CHECK_FALSE(listed);
}

TEST_CASE("where another rank fails, a reader is left that has no files") {
  if (world().size() == 1) return;
  Shards shards(tasks::find("classification"), 9);
  shards.options.ranks = reading_ranks();
  int questions = 0;  // two on the list of shards, then one for each part of them
  shards.options.ranks.any = [&](bool value) { return world().any(value || ++questions == 4); };
  const data::ShardReader reader(shards.options);
  CHECK(reader.files().empty());
  CHECK(reader.token_bytes() >= 0);
  CHECK(reader.memory_bytes() >= 0);
}

TEST_CASE("a rank whose node has another file says so") {
  if (world().size() == 1) return;
  Shards shards(tasks::find("classification"), 2);
  shards.options.read_at_once = 0;
  shards.options.ranks = reading_ranks();
  // Rank 1 checks. After two questions on the list of shards the third one comes when rank 0 has read the first shard:
  // then it is replaced.
  int questions = 0;
  shards.options.ranks.any = [&](bool value) {
    const bool result = world().any(value);
    if (world().rank() == 0 && ++questions == 3) {
      bert_hpc::test::write_shard(shards.file(0), bert_hpc::test::make_content(tasks::find("classification"), 6, 99));
    }
    world().barrier();
    return result;
  };
  const std::string found = refusal(shards.options);
  if (world().rank() == 1) {
    CHECK_THAT(found, ContainsSubstring(shards.file(0) + ": Rank 1 on ") &&
                          ContainsSubstring("has another file of this name than the rank that has read it"));
  } else {
    CHECK(found == "accepted");
  }
}

TEST_CASE("parts of shards hold all of them once, and no rank is without work") {
  for (const std::size_t files : {1, 2, 7, 100, 10000}) {
    for (const std::int64_t mean : {1, 10000, 1 << 24, 1 << 30}) {
      for (const int ranks : {1, 2, 3, 8, 200}) {
        std::vector<std::int64_t> sizes(files, mean);
        sizes.back() = 1 << 30;
        const auto parts = data::parts_of(sizes, ranks);
        std::size_t next = 0;
        for (const data::Part& part : parts) {
          REQUIRE(part.begin == next);
          REQUIRE(part.end > part.begin);
          const auto bytes = std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(part.begin),
                                             sizes.begin() + static_cast<std::ptrdiff_t>(part.end), std::int64_t{0});
          REQUIRE((part.end - part.begin == 1 || bytes <= 32 << 20));
          next = part.end;
        }
        REQUIRE(next == files);
        REQUIRE(parts.size() >= std::min(files, static_cast<std::size_t>(ranks)));
      }
    }
  }
}
