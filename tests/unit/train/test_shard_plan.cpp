// Shard plans: buckets tile the arena within segments, pieces are equal, and memory is what ZeRO promises.
#include "bert_hpc/train/shard_plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <map>

#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;
using core::ParameterStore;

namespace {

ParameterStore layout(bool reproducible, int ranks) {
  std::vector<core::ParameterSpec> specs;
  for (int i = 0; i < 12; ++i) {
    specs.push_back({"layer." + std::to_string(i) + ".weight", {700, 700}});
    specs.push_back({"layer." + std::to_string(i) + ".bias", {700}, false});
  }
  return ParameterStore(specs, ParameterStore::Arenas::none, train::shard_alignment(reproducible, ranks));
}

std::map<std::string, std::int64_t> memory_of(const train::ShardPlan& plan) {
  const auto list = plan.memory();
  return {list.begin(), list.end()};
}

}  // namespace

TEST_CASE("buckets tile every segment in equal, aligned pieces") {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const ParameterStore store = layout(false, ranks);
    train::ShardSettings settings{.bucket_elements = 100'000};
    settings.segments = {0, store.slices()[4].offset, store.slices()[10].offset};
    const train::ShardPlan plan = train::plan_shards(store, settings, ranks);
    std::int64_t end = 0;
    for (const train::ShardPlan::Bucket& bucket : plan.buckets) {
      CHECK(bucket.begin == end);
      CHECK(bucket.size % (16 * ranks) == 0);
      CHECK(bucket.begin >= settings.segments[static_cast<std::size_t>(bucket.segment)]);
      end = bucket.begin + bucket.size;
      CHECK(end <= plan.segment_end(bucket.segment));
    }
    CHECK(end == store.arena_size());
  }
}

TEST_CASE("memory of the optimizer's states is divided by the ranks from ZeRO 1 on") {
  for (const int ranks : {1, 2, 4}) {
    const ParameterStore store = layout(false, ranks);
    const std::int64_t arena = 4 * store.arena_size();
    const std::vector<ops::StateTensor> states = {{.name = "first"}, {.name = "second"}};
    auto memory = memory_of(train::plan_shards(store, {.zero = 1, .states = states}, ranks));
    CHECK(memory["parameters"] == arena);
    CHECK(memory["gradients"] == arena);
    CHECK(memory["optimizer states"] == 2 * arena / ranks);
    CHECK(memory["partial sums"] == (ranks > 1 ? arena / ranks : 0));
    memory = memory_of(train::plan_shards(store, {.zero = 0, .states = states}, ranks));
    CHECK(memory["optimizer states"] == 2 * arena);
    memory = memory_of(train::plan_shards(store, {.zero = 1, .offload = true, .states = states}, ranks));
    CHECK(memory["optimizer states and parameters (host)"] == 4 * arena / ranks);
  }
}

TEST_CASE("gradients, sums and states are those of the trainable parameters, and a frozen segment is empty") {
  std::vector<core::ParameterSpec> specs = {{.name = "frozen", .shape = {640, 64}, .trainable = false}};
  for (int i = 0; i < 3; ++i) specs.push_back({"block." + std::to_string(i), {100, 64}});
  specs.push_back({.name = "also frozen", .shape = {64}, .trainable = false});
  const std::vector<ops::StateTensor> states = {{.name = "first"}, {.name = "second"}};
  for (const bool reproducible : {false, true}) {
    for (const int ranks : {1, 2, 4}) {
      for (const int zero : {0, 1, 2}) {
        const ParameterStore store(specs, ParameterStore::Arenas::none, train::shard_alignment(reproducible, ranks));
        const std::int64_t trainable = 4 * store.trainable_size();
        train::ShardSettings settings{.reproducible = reproducible, .zero = zero, .states = states, .chunks = 4};
        const std::int64_t second = store.slices()[1].offset;
        settings.segments = {0, 0, second, second, store.trainable_size()};
        settings.units = {0, second, store.slices()[2].offset};
        const train::ShardPlan plan = train::plan_shards(store, settings, ranks);
        auto memory = memory_of(plan);
        CHECK(memory["parameters"] == 4 * store.arena_size());
        CHECK(memory["optimizer states"] == 2 * trainable / (zero > 0 ? ranks : 1));
        if (plan.shards_gradients()) {
          CHECK(memory["gradients, own part"] == trainable / ranks);
          REQUIRE(plan.units.size() == 3);
          CHECK(plan.units[0].segment == 1);
          CHECK(plan.units[2].segment == 3);
          CHECK(plan.ring == std::vector<std::int64_t>{0, second, 0, second, 0});
        } else {
          CHECK(memory["gradients"] == trainable);
        }
        std::int64_t end = 0;
        for (const train::ShardPlan::Bucket& bucket : plan.buckets) {
          CHECK(bucket.begin == end);
          CHECK((reproducible || bucket.segment == (bucket.begin < second ? 1 : 3)));
          end = bucket.begin + bucket.size;
        }
        CHECK(end == store.trainable_size());
      }
    }
  }
  for (core::ParameterSpec& spec : specs) spec.trainable = false;
  const ParameterStore none(specs, ParameterStore::Arenas::none, train::shard_alignment(false, 2));
  for (const int zero : {0, 1, 2}) {
    const train::ShardPlan plan = train::plan_shards(none, {.zero = zero, .segments = {0, 0}}, 2);
    CHECK(plan.buckets.empty());
    CHECK(plan.optimizer_elements == 0);
  }
}

TEST_CASE("reproducible plans: levels of the tree, and powers of two only") {
  const ParameterStore store = layout(true, 2);
  const auto levels = [&](std::int64_t chunks) {
    return train::plan_shards(store, {.reproducible = true, .chunks = chunks}, 2).tree_levels;
  };
  CHECK(levels(2) == 1);
  CHECK(levels(4) == 1);
  CHECK(levels(16) == 3);
  CHECK_THROWS_AS(levels(6), core::Error);
  CHECK_THROWS_AS(levels(1), core::Error);
  for (const core::ParameterSlice& slice : store.slices()) CHECK(slice.offset % 4096 == 0);
}

TEST_CASE("sharded gradients: units, the ring that they take turns in, and buckets that part at a tied parameter") {
  std::vector<core::ParameterSpec> specs = {{"words", {1000, 64}}, {"positions", {64, 64}}};
  for (int i = 0; i < 4; ++i) specs.push_back({"block." + std::to_string(i), {100, 64}});
  specs.push_back({"head", {10, 64}});
  specs.push_back({.name = "decoder", .shape = {1000, 64}, .copy_of = "words"});
  const ParameterStore store(specs, ParameterStore::Arenas::none, train::shard_alignment(false, 4));
  train::ShardSettings settings{.zero = 2, .tied = "words"};
  for (const int first : {0, 2, 3, 4, 5, 6}) {
    settings.units.push_back(store.slices()[static_cast<std::size_t>(first)].offset);
  }
  const train::ShardPlan plan = train::plan_shards(store, settings, 4);
  REQUIRE(plan.units.size() == 6);
  CHECK(plan.buckets.size() == 8);  // words, positions, four blocks, head, decoder
  CHECK(plan.units[0].end_bucket == 2);
  CHECK(plan.units[5].first_bucket == 6);
  // Head and decoder, and the last block before them: more than the embeddings.
  CHECK(plan.ring == std::vector<std::int64_t>{(100 + 10 + 1000) * 64});
  CHECK(plan.held == 0);
  settings.first_unit_held = true;
  const train::ShardPlan held = train::plan_shards(store, settings, 4);
  CHECK(held.held == 1064 * 64);
  CHECK(held.describe() ==
        "ZeRO 2 over 4 ranks: optimizer states and gradients sharded; gradients of the tied embeddings whole until the "
        "end of a step; gradients in 8 messages of at most 250.0 KiB");
  settings.units.erase(settings.units.begin());
  CHECK_THROWS_AS(train::plan_shards(store, settings, 4), core::Error);
}
