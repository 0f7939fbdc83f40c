// AdamW with moments of 8 bits: against AdamW in double on decoded moments, for any cut of the ranges, on device and
// host; where the states of an element are; what states take.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/ops/dynamic8.hpp"
#include "bert_hpc/train/optimizer.hpp"

using namespace bert_hpc;
namespace dynamic8 = bert_hpc::ops::dynamic8;

namespace {

/// Two tensors in blocks, the second of which begins within a block of the first, as joined ones do; and two small
/// ones.
const std::vector<core::ParameterSpec> specs = {{.name = "one", .shape = {50, 130}},
                                                {.name = "two", .shape = {50, 130}, .joined = true},
                                                {.name = "bias", .shape = {130}, .decay = false},
                                                {.name = "small", .shape = {16, 16}}};
constexpr std::int64_t in_blocks = 13056;  // elements of the first two, padding included: 51 blocks

std::vector<float> random(std::int64_t count, unsigned seed, float scale) {
  std::mt19937 draw(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) number = normal(draw) * std::exp2(-static_cast<float>(draw() % 12));
  return numbers;
}

/// Moments of neighbours as their blocks keep them.
void round_block(std::vector<double>& all, std::size_t begin, bool with_sign) {
  const auto& values = dynamic8::values(with_sign);
  float scale = 0;
  for (std::size_t i = begin; i < begin + 256; ++i) scale = std::max(scale, std::abs(static_cast<float>(all[i])));
  for (std::size_t i = begin; i < begin + 256; ++i) {
    const float y = static_cast<float>(all[i]) * dynamic8::inverse_scale(scale);
    const std::uint8_t code = dynamic8::encode(with_sign, y);
    all[i] = static_cast<double>(values[code]) * static_cast<double>(scale);
  }
}

struct Reference {
  std::vector<double> w, m, v;

  void adamw(const core::ParameterStore& store, const std::vector<float>& g, int t) {
    const double lr = 0.01, b1 = 0.9, b2 = 0.99, epsilon = 1e-6;
    for (const core::ParameterSlice& slice : store.slices()) {
      const double decay = slice.decay ? 0.05 : 0.0;
      for (std::int64_t j = 0; j < slice.size; ++j) {
        const auto i = static_cast<std::size_t>(slice.offset + j);
        m[i] = b1 * m[i] + (1 - b1) * static_cast<double>(g[i]);
        v[i] = b2 * v[i] + (1 - b2) * static_cast<double>(g[i]) * static_cast<double>(g[i]);
        const double root = std::sqrt(v[i] / (1 - std::pow(b2, t)));
        w[i] -= lr * (decay * w[i] + m[i] / (1 - std::pow(b1, t)) / (root + epsilon));
      }
    }
    for (std::size_t begin = 0; begin < in_blocks; begin += 256) {
      round_block(m, begin, true);
      round_block(v, begin, false);
    }
  }
};

}  // namespace

TEST_CASE("AdamW with 8-bit moments follows its formula in double, for any cut of the ranges") {
  const bool offload = GENERATE(true, false);
  const std::int64_t cut = GENERATE(0, 4096, 6400);  // of the owned ranges, or none
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients, {256, 256});
  const std::int64_t size = store.arena_size();
  std::vector<float> start(static_cast<std::size_t>(size), 0.0f);
  for (const core::ParameterSlice& slice : store.slices()) {
    const std::vector<float> values = random(slice.size, static_cast<unsigned>(slice.offset) + 1, 0.5f);
    std::copy(values.begin(), values.end(), start.begin() + slice.offset);
  }
  core::copy_to_device(std::span<const float>(start), store.change_values());
  float* const gradients = store.gradients().data();
  std::vector<train::OwnedRange> owned = {{0, size, gradients}};
  if (cut > 0) owned = {{0, cut, gradients}, {cut, size - cut, gradients + cut}};
  train::Optimizer optimizer({.name = "adamw8bit", .values = {0.9, 0.99, 1e-6, 0.05}, .max_gradient_norm = 0}, store,
                             owned, offload);
  Reference expected{
      {start.begin(), start.end()}, std::vector<double>(start.size()), std::vector<double>(start.size())};
  for (int t = 1; t <= 4; ++t) {
    std::vector<float> g = random(size, 10u + static_cast<unsigned>(t), 0.1f);
    std::fill(g.begin() + 13000, g.begin() + in_blocks, 0.0f);  // padding has no gradient
    core::copy_to_device(std::span<const float>(g), store.gradients());
    expected.adamw(store, g, t);
    optimizer.step(0.01, t, 1.0);
  }
  std::vector<float> found(start.size());
  core::copy_to_host(store.values(), std::span<float>(found));
  std::int64_t different = 0, far = 0;
  for (const core::ParameterSlice& slice : store.slices()) {
    for (std::int64_t j = 0; j < slice.size; ++j) {
      const auto i = static_cast<std::size_t>(slice.offset + j);
      const double difference = std::abs(static_cast<double>(found[i]) - expected.w[i]);
      // Values below 3 and four updates of at most 0.1, a few roundings each.
      if (difference > 2e-6) ++different;
      // A moment half way between two codes may get the other one: 2% of it, in the one or two updates that follow.
      if (difference > 4e-3) ++far;
    }
  }
  CHECK(different < size / 1000);
  CHECK(far == 0);
}

TEST_CASE("states in blocks: where those of an element are") {
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients, {256, 256});
  const train::OwnedRange all{0, store.arena_size(), store.gradients().data()};
  const train::Optimizer optimizer({.name = "adamw8bit"}, store, std::span(&all, 1));
  const train::OptimizerStates& states = optimizer.states();
  CHECK(states.codes(0).size() == in_blocks);
  CHECK(states.scales(1).size() == in_blocks / 256);
  CHECK(states.numbers(1).size() == static_cast<std::size_t>(store.arena_size() - in_blocks));
  const auto& slices = store.slices();
  CHECK(states.position_of(slices[1].offset + 5).in_blocks);
  CHECK(states.position_of(slices[1].offset + 5).index == 6505);
  CHECK_FALSE(states.position_of(slices[2].offset).in_blocks);
  CHECK(states.position_of(slices[3].offset + 7).index == slices[3].offset + 7 - in_blocks);
  CHECK_THROWS(states.position_of(store.arena_size()));
}

TEST_CASE("states of large tensors take little more than two bytes a parameter") {
  const auto& states = ops::optimizer_kind("adamw8bit").states;
  CHECK(ops::bytes_per_parameter(states) == 2 * (1 + 4.0 / 256));
  CHECK(ops::bytes_of_states(states, 5000, 4096) == 2 * (904 * 4 + 4096 + 16 * 4));
  CHECK(ops::bytes_per_parameter(ops::optimizer_kind("adamw").states) == 8);
}

TEST_CASE("gradients that are known to be zero need not be read") {
  std::vector<core::ParameterSpec> table = {{.name = "table", .shape = {64, 256}, .row_sparse = true}};
  std::vector<std::vector<float>> results;
  for (const bool marked : {false, true}) {
    core::ParameterStore store(table, core::ParameterStore::Arenas::with_gradients, {256, 256}, {.zero_lines = marked});
    core::copy_to_device(std::span<const float>(random(store.arena_size(), 3, 1)), store.change_values());
    const train::OwnedRange all{0, store.arena_size(), store.gradients().data(), store.marks(0)};
    train::Optimizer optimizer({.name = "adamw8bit"}, store, std::span(&all, 1));
    for (int t = 1; t <= 3; ++t) {
      const std::vector<float> rows = random(512, static_cast<unsigned>(t), 0.1f);
      const auto begin = static_cast<std::size_t>(t * 512);
      core::copy_to_device(std::span<const float>(rows), store.gradients().subspan(begin, 512));
      const std::vector<std::int32_t> touched = {2 * t, 2 * t + 1};
      core::Buffer<std::int32_t> ids(2);
      core::copy_to_device(touched.data(), ids.data(), 2 * sizeof(std::int32_t));
      ops::mark_rows({store.marks(0)}, 256, ids.data(), 2);
      optimizer.step(0.01, t, 1.0);
    }
    results.emplace_back(static_cast<std::size_t>(store.arena_size()));
    core::copy_to_host(store.values(), std::span<float>(results.back()));
    std::vector<float> left(results.back().size());
    core::copy_to_host(std::span<const float>(store.gradients()), std::span<float>(left));
    CHECK(std::all_of(left.begin(), left.end(), [](float g) { return g == 0.0f; }));
  }
  CHECK(results[0] == results[1]);
}
