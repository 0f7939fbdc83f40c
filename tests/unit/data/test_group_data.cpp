// Queries with their candidates, as ShardWriter writes and GroupReader reads them, and as steps draw them.
#include "bert_hpc/data/group_data.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/data/shard_writer.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

const tasks::Task* const task = tasks::find("answer_ranking");

/// A query of `levels`: its id and each candidate's are made of `name`.
struct Query {
  std::string name;
  std::vector<std::int32_t> levels, further{};
};

void write(const std::string& path, const std::vector<Query>& queries, bool texts = true) {
  data::ShardInfo info;
  info.task = task;
  info.vocabulary_hash = "cafe";
  info.vocabulary_size = 100;
  info.tokenizer = R"({"cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0})";
  info.has_texts = texts;
  data::ShardWriter writer(path, info, false);
  std::int64_t row = 0;
  for (const Query& query : queries) {
    for (std::size_t i = 0; i < query.levels.size(); ++i) {
      const std::vector<std::string> row_texts = {query.name, i == 0 ? data::levels_to_json(query.further) : "",
                                                  std::string(query.name).append(1, '-').append(std::to_string(i))};
      std::vector<std::int32_t> ids(3 + (row * 5) % 7, 5);
      writer.add(ids, {}, {.number = query.levels[i]}, row++,
                 {.starts_group = i == 0, .starts_row = true, .texts = row_texts});
    }
  }
  writer.finish();
}

data::ShardReaderOptions options_of(const std::vector<std::string>& paths) {
  data::ShardReaderOptions options;
  options.paths = paths;
  options.limits.task = task;
  options.source_index = true;
  return options;
}

std::vector<Query> many_queries(std::int64_t count) {
  std::vector<Query> queries;
  for (std::int64_t q = 0; q < count; ++q) {
    Query query{std::to_string(q), {}};
    for (std::int64_t i = 0; i <= q % 5; ++i) query.levels.push_back(q % 4 == 3 ? 0 : i == q % 2 ? 2 : 0);
    queries.push_back(query);
  }
  return queries;
}

}  // namespace

TEST_CASE("queries of several shards come back with their candidates") {
  const test::ScratchDirectory directory;
  write(directory / "a.h5", {{"a", {0, 1}, {2, 1}}, {"b", {3}}});
  write(directory / "b.h5", {{"c", {0, 0, 1}}});
  const data::ShardReader shards(options_of({directory / "a.h5", directory / "b.h5"}));
  CHECK(shards.info().has_texts);
  CHECK(std::vector<std::int64_t>(shards.groups().begin(), shards.groups().end()) ==
        std::vector<std::int64_t>{0, 2, 3, 6});
  CHECK(std::vector<std::int32_t>(shards.levels().begin(), shards.levels().end()) ==
        std::vector<std::int32_t>{0, 1, 3, 0, 0, 1});
  std::mutex hdf5;
  data::GroupReader groups(shards, hdf5);
  REQUIRE(groups.next());
  CHECK(groups.group().id == "a");
  CHECK(groups.group().candidates == std::vector<std::string>{"a-0", "a-1"});
  CHECK(groups.group().further_levels == std::vector<std::int32_t>{2, 1});
  REQUIRE(groups.next());
  CHECK(groups.group().further_levels.empty());
  REQUIRE(groups.next());
  CHECK(groups.group().id == "c");
  CHECK(groups.begin() == 3);
  CHECK(groups.end() == 6);
  CHECK_FALSE(groups.next());
}

TEST_CASE("damaged groups, levels and texts are refused") {
  const test::ScratchDirectory directory;
  const auto bent = [&](const char* name, const auto& values) {
    const std::string path = directory / "bent.h5";
    auto content = test::make_content(task, 4, 7);
    test::write_shard(path, content, {name}, [&](io::Hdf5File& file) {
      if (!values.empty()) file.write(name, values);
    });
    const data::ShardReader shards(options_of({path}));
    std::mutex hdf5;
    data::GroupReader groups(shards, hdf5);
    while (groups.next()) {
    }
  };
  using Integers = std::vector<std::int64_t>;
  const char* const name = data::shard_dataset::groups;
  CHECK_THROWS_WITH(bent(name, Integers{}), ContainsSubstring("no dataset '/groups'"));
  CHECK_THROWS_WITH(bent(name, Integers{0, 1, 2, 3, 4, 4}), ContainsSubstring("'/groups' have 6 elements"));
  for (const Integers& groups : {Integers{0, 3}, Integers{1, 4}, Integers{0, 3, 3, 4}, Integers{0, 5, 4}}) {
    CHECK_THROWS_WITH(bent(name, groups), ContainsSubstring("'/groups' must ascend from 0 to 4"));
  }
  CHECK_THROWS_WITH(bent(data::shard_dataset::labels, std::vector<std::int32_t>{0, 1, -1, 0}),
                    ContainsSubstring("has level -1"));
  CHECK_THROWS_WITH(bent(data::shard_dataset::text_offsets, Integers{0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}),
                    ContainsSubstring("the further levels of row 0 are no JSON array"));
}

TEST_CASE("steps of lists draw whole queries that have a relevant candidate, the same on any layout") {
  const test::ScratchDirectory directory;
  const std::vector<Query> queries = many_queries(40);
  write(directory / "a.h5", queries, false);
  std::set<std::int64_t> expected;  // first samples of queries with a relevant candidate
  std::int64_t sample = 0;
  for (const Query& query : queries) {
    if (std::count(query.levels.begin(), query.levels.end(), 2) > 0) expected.insert(sample);
    sample += std::ssize(query.levels);
  }
  std::vector<std::vector<std::set<std::int64_t>>> chunks_of_layouts;
  for (const int replicas : {1, 2, 4}) {
    std::set<std::int64_t> seen;
    std::vector<std::set<std::int64_t>> chunks;
    for (int replica = 0; replica < replicas; ++replica) {
      data::ShardReader reader(options_of({directory / "a.h5"}));
      data::BatchLoader loader(
          reader, {.plan = {.global_batch = 8, .hidden = 64, .replicas = replicas, .reproducible = true, .chunks = 4},
                   .replica = replica,
                   .task = task,
                   .sampler = {.seed = 3},
                   .epochs = 1,
                   .lists = true});
      CHECK(loader.units() == std::ssize(expected));
      while (loader.has_next()) {
        const data::LoadedStep& step = loader.next();
        CHECK(step.global_target_count <= 8);
        for (int c = 0; replica == 0 && c < step.plan.chunks(); ++c) {
          chunks.emplace_back();
          for (const core::PlannedSample& one : step.plan.chunk(c)) chunks.back().insert(one.index);
        }
        for (const data::LoadedMicroBatch& micro : step.micro_batches) {
          const core::MicroBatch& batch = micro.on_host;
          const auto& lists = batch.targets.get<core::ListTargets>();
          const float* const values = batch.targets.get<core::ValueTargets>().data;
          CHECK(micro.target_count == lists.count);
          std::int32_t end = 0;
          for (std::int64_t q = 0; q < lists.count; ++q) {
            CHECK(lists.data[2 * q] == end);
            end = lists.data[2 * q + 1];
            const std::int64_t first = batch.sample[lists.data[2 * q]];
            CHECK(expected.contains(first));
            CHECK(seen.insert(first).second);
            float relevant = 0;
            for (std::int32_t row = lists.data[2 * q]; row < end; ++row) {
              CHECK(batch.sample[row] == first + row - lists.data[2 * q]);
              CHECK(values[row] == (reader.levels()[static_cast<std::size_t>(batch.sample[row])] > 0));
              relevant += values[row];
            }
            CHECK(relevant == 1);
          }
          CHECK(end == batch.sequences);
        }
      }
    }
    CHECK(seen == expected);
    chunks_of_layouts.push_back(chunks);
  }
  CHECK(chunks_of_layouts[1] == chunks_of_layouts[0]);
  CHECK(chunks_of_layouts[2] == chunks_of_layouts[0]);
}

TEST_CASE("what lists cannot be made of is refused") {
  const test::ScratchDirectory directory;
  write(directory / "a.h5", {{"a", {0, 0}}, {"b", {0}}}, false);
  data::ShardReader reader(options_of({directory / "a.h5"}));
  const data::BatchLoaderOptions options{
      .plan = {.global_batch = 2, .hidden = 64}, .task = task, .sampler = {}, .epochs = 1, .lists = true};
  CHECK_THROWS_WITH(data::BatchLoader(reader, options), ContainsSubstring("no query of the training data"));
  write(directory / "b.h5", {{"a", {1, 0, 0}}}, false);
  data::ShardReader one(options_of({directory / "b.h5"}));
  data::BatchLoaderOptions two = options;
  two.plan.replicas = 2;
  CHECK_THROWS_WITH(data::BatchLoader(one, two), ContainsSubstring("fewer queries with a relevant candidate (1"));
}
