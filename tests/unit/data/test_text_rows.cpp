// Batches of rows of texts, with and without scores. Each text is a sequence.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/data/shard_writer.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

const tasks::Task* const task = tasks::find("embedding");

/// Rows of two and three texts in turn; of two if they have scores, 0.5 and 1 more for each row.
void write(const std::string& path, std::int64_t rows, bool scored) {
  data::ShardInfo info;
  info.task = task;
  info.vocabulary_hash = "cafe";
  info.vocabulary_size = 100;
  info.tokenizer = R"({"cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0})";
  info.labelled = scored;
  data::ShardWriter writer(path, info, false);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t texts = scored ? 2 : 2 + row % 2;
    const float score = 0.5f + static_cast<float>(row);
    for (std::int64_t i = 0; i < texts; ++i) {
      const std::vector<std::int32_t> ids(static_cast<std::size_t>(3 + (row + i) % 4), 5);
      writer.add(ids, {}, {.values = std::span(&score, 1)}, row, {.starts_group = i == 0});
    }
  }
  writer.finish();
}

data::ShardReaderOptions options_of(const std::vector<std::string>& paths) {
  data::ShardReaderOptions options;
  options.paths = paths;
  options.limits.task = task;
  return options;
}

}  // namespace

TEST_CASE("a step's micro-batches have whole rows of texts with their indices and scores") {
  for (const bool scored : {false, true}) {
    const test::ScratchDirectory directory;
    write(directory / "a.h5", 9, scored);
    write(directory / "b.h5", 4, scored);
    data::ShardReader reader(options_of({directory / "a.h5", directory / "b.h5"}));
    CHECK(reader.values().empty() == !scored);
    CHECK(std::ssize(reader.groups()) == 14);
    data::BatchLoader loader(reader, {.plan = {.global_batch = 5, .hidden = 64, .replicas = 1, .micro_sequences = 2},
                                      .task = task,
                                      .sampler = {.seed = 3},
                                      .epochs = 1,
                                      .lists = true,
                                      .label_scales = {data::LabelScale::of_range(-10, 10)}});
    std::int64_t drawn = 0;
    std::map<std::int32_t, std::pair<float, float>> hashes;  // by length
    while (loader.has_next()) {
      const data::LoadedStep& step = loader.next();
      CHECK(step.global_target_count <= 5);
      for (const data::LoadedMicroBatch& micro : step.micro_batches) {
        const core::MicroBatch& batch = micro.on_host;
        const auto& rows = batch.targets.get<core::ListTargets>();
        const float* const texts = batch.targets.get<core::TextTargets>().data;
        CHECK(batch.targets.rows.count == batch.tokens.count);
        CHECK(rows.count <= 2);
        CHECK(micro.target_count == rows.count);
        drawn += rows.count;
        for (std::int64_t r = 0; r < rows.count; ++r) {
          for (std::int32_t s = rows.data[2 * r]; s < rows.data[2 * r + 1]; ++s) {
            CHECK(batch.sample[s] == batch.sample[rows.data[2 * r]] + s - rows.data[2 * r]);
            const float* const text = texts + core::TextTargets::columns * s;
            CHECK(text[0] == static_cast<float>(s - rows.data[2 * r]));
            const float score = scored ? reader.values()[static_cast<std::size_t>(batch.sample[s])] : -10;
            CHECK(text[1] == (score + 10) / 20);
            // Texts of the same length are equal here.
            const auto [known, is_new] =
                hashes.emplace(batch.tokens.offsets[s + 1] - batch.tokens.offsets[s], std::pair(text[2], text[3]));
            CHECK(known->second == std::pair(text[2], text[3]));
          }
        }
      }
    }
    CHECK(drawn == 13);
    std::set<std::pair<float, float>> different;
    for (const auto& [length, hash] : hashes) different.insert(hash);
    CHECK(different.size() == 4);
  }
}

TEST_CASE("evaluations draw texts one by one, without targets") {
  const test::ScratchDirectory directory;
  write(directory / "a.h5", 6, true);
  data::ShardReader reader(options_of({directory / "a.h5"}));
  const data::BatchLoaderOptions training{
      .plan = {.global_batch = 2, .hidden = 64}, .task = task, .sampler = {}, .lists = true};
  data::BatchLoader loader(reader, data::evaluation_options(training, 6));
  const data::LoadedStep& step = loader.next();
  CHECK(step.sequences == 12);
  CHECK(step.micro_batches.front().on_host.targets.get<core::TextTargets>().data == nullptr);
}

TEST_CASE("shards of a split have scores, or none has") {
  const test::ScratchDirectory directory;
  write(directory / "a.h5", 3, true);
  write(directory / "b.h5", 3, false);
  CHECK_THROWS_WITH(data::ShardReader(options_of({directory / "a.h5", directory / "b.h5"})),
                    ContainsSubstring("b.h5: its rows have no scores, those of") && ContainsSubstring("have some"));
}
