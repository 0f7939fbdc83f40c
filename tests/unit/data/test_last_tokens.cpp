// Batches for heads that read the last token of each sequence instead of the first.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "bert_hpc/data/batch_loader.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;

TEST_CASE("a head of sequences reads the last real token of each, whatever the padding") {
  const test::ScratchDirectory directory;
  const tasks::Task* const task = tasks::find("classification");
  test::write_shard(directory / "a.h5", test::make_content(task, 9, 7, 20, true));
  data::ShardReaderOptions options;
  options.paths = {directory / "a.h5"};
  options.limits.task = task;
  data::ShardReader reader(options);
  const data::Padding padding = GENERATE(data::Padding::none, data::Padding::max);
  data::BatchLoaderOptions batches = {.plan = {.global_batch = 9, .hidden = 64, .micro_tokens = 1000},
                                      .task = task,
                                      .sampler = {.order = data::Order::file},
                                      .epochs = 1,
                                      .last_tokens = true};
  batches.plan.padding = {.kind = padding, .length = 25};
  data::BatchLoader loader(reader, batches);
  const core::MicroBatch& batch = loader.next().micro_batches.at(0).on_host;
  REQUIRE(batch.sequences == 9);
  for (std::int64_t s = 0; s < batch.sequences; ++s) {
    const auto length = static_cast<std::int32_t>(reader.table().length(batch.sample[s]));
    CHECK(batch.targets.rows.position[s] == length - 1);
    CHECK(batch.targets.index[s] == batch.tokens.offsets[s] + length - 1);
    CHECK(batch.targets.rows.offsets[s] == s);
    CHECK(batch.targets.rows.sequence[s] == s);
  }
}
