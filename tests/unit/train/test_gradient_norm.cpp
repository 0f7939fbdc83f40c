#include "bert_hpc/train/gradient_norm.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace bert_hpc;

TEST_CASE("the first rank of a tensor group counts replicated parameters, and each rank counts its shards") {
  const std::vector<core::ParameterSpec> whole = {{"a", {8, 4}}, {"b", {4}}, {"c", {4, 8}}};
  std::vector<core::ParameterSpec> part = {{"a", {4, 4}}, {"b", {4}}, {"c", {4, 4}}};
  part[0].shard = {0, 4, 8};
  part[2].shard = {1, 4, 8};
  const core::ParameterStore store(part, core::ParameterStore::Arenas::none);
  const auto alone = comm::make_self_communicator();
  CHECK(train::norm_scope(store.slices(), whole, *alone, 0).first_block == std::vector<std::int64_t>{0, 1, 2});
  CHECK(train::norm_scope(store.slices(), whole, *alone, 1).first_block == std::vector<std::int64_t>{0, -1, 2});
}

TEST_CASE("frozen parameters are not counted, and have no blocks") {
  const std::vector<core::ParameterSpec> whole = {
      {.name = "a", .shape = {8, 4}}, {.name = "b", .shape = {4}, .trainable = false}, {.name = "c", .shape = {4, 8}}};
  const core::ParameterStore store(whole, core::ParameterStore::Arenas::with_gradients);
  const auto alone = comm::make_self_communicator();
  const train::NormScope scope = train::norm_scope(store.slices(), whole, *alone);
  CHECK(scope.blocks == 2);
  CHECK(scope.first_block == std::vector<std::int64_t>{0, 1, -1});
  CHECK(train::noise_ranges(store.slices(), scope) ==
        std::vector<train::ArenaRange>{{0, store.slices()[1].offset + store.slices()[1].size}});
}

TEST_CASE("measurements of noise leave out one parameter, and parameters that another rank counts") {
  const std::vector<core::ParameterSpec> specs = {{"a", {8, 4}}, {"b", {4}}, {"c", {4, 8}}, {"d", {8}}};
  const core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients);
  const auto& slices = store.slices();
  const auto end = [&](std::size_t i) { return slices[i].offset + slices[i].size; };
  const auto alone = comm::make_self_communicator();
  using Ranges = std::vector<train::ArenaRange>;
  CHECK(train::noise_ranges(slices, train::norm_scope(slices, specs, *alone)) == Ranges{{0, end(3)}});
  const train::NormScope scope = train::norm_scope(slices, specs, *alone, 0, {"b"});
  CHECK(train::noise_ranges(slices, scope) == Ranges{{0, end(0)}, {slices[2].offset, end(3)}});
  // On the second rank of a tensor group all of these, whole, are another's.
  CHECK(train::noise_ranges(slices, train::norm_scope(slices, specs, *alone, 1, {"b"})).empty());

  std::vector<float> gradients(static_cast<std::size_t>(end(3)), 0.0f);
  for (std::int64_t i = slices[1].offset; i < end(1); ++i) gradients[static_cast<std::size_t>(i)] = 3.0f;
  core::copy_to_device(gradients.data(), store.gradients().data(), gradients.size() * sizeof(float));
  // In parts, as ranks that share the sums out have them: one cuts b in the middle.
  const train::OwnedRange part{0, slices[1].offset + 1, store.gradients().data()};
  for (const bool reproducible : {false, true}) {
    train::GradientNorm norm(store, scope, {&part, 1}, reproducible);
    norm.start_left_out();
    core::wait_for_kernels();
    CHECK(norm.left_out() == 9);
  }
}
