// LAMB and StableAdamW against their formulas in double: moments, bias correction, the scale of each tensor's step, and
// tensors without a scale.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/train/optimizer.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;

namespace {

/// Whole blocks of ops::norm_block elements and parts of them; the second is joined to the first, and begins in a
/// block.
const std::vector<core::ParameterSpec> specs = {{.name = "one", .shape = {50, 130}},
                                                {.name = "two", .shape = {50, 130}, .joined = true},
                                                {.name = "bias", .shape = {130}, .decay = false},
                                                {.name = "zero", .shape = {16, 16}}};

struct Reference {
  std::vector<double> w, m, v;

  void stable_adamw(const core::ParameterStore& store, const std::vector<float>& g, int t) {
    const double lr = 0.01, epsilon = 1e-6;
    const auto corrected = [t](double beta) { return beta * (1 - std::pow(beta, t - 1)) / (1 - std::pow(beta, t)); };
    const double b1 = corrected(0.9), b2 = corrected(0.99);
    for (const core::ParameterSlice& slice : store.slices()) {
      const auto begin = static_cast<std::size_t>(slice.offset), end = begin + static_cast<std::size_t>(slice.size);
      double squares = 0;
      for (std::size_t i = begin; i < end; ++i) {
        const double grad = static_cast<double>(g[i]);
        m[i] = b1 * m[i] + (1 - b1) * grad;
        v[i] = b2 * v[i] + (1 - b2) * grad * grad;
        squares += grad * grad / std::max(v[i], epsilon * epsilon) / static_cast<double>(slice.size);
      }
      largest_rms = std::max(largest_rms, std::sqrt(squares));
      smallest_rms = std::min(smallest_rms, std::sqrt(squares));
      const double rate = lr / std::max(1.0, std::sqrt(squares));
      for (std::size_t i = begin; i < end; ++i) {
        w[i] -= rate * ((slice.decay ? 0.05 : 0.0) * w[i] + m[i] / (std::sqrt(v[i]) + epsilon));
      }
    }
  }

  double largest_rms = 0, smallest_rms = 1e30;

  void lamb(const core::ParameterStore& store, const std::vector<float>& g, int t) {
    const double lr = 0.01, b1 = 0.9, b2 = 0.99, epsilon = 1e-6;
    for (const core::ParameterSlice& slice : store.slices()) {
      const double decay = slice.decay ? 0.05 : 0.0;
      std::vector<double> u(static_cast<std::size_t>(slice.size));
      double w_squares = 0, u_squares = 0;
      for (std::size_t j = 0; j < u.size(); ++j) {
        const std::size_t i = static_cast<std::size_t>(slice.offset) + j;
        m[i] = b1 * m[i] + (1 - b1) * static_cast<double>(g[i]);
        v[i] = b2 * v[i] + (1 - b2) * static_cast<double>(g[i]) * static_cast<double>(g[i]);
        u[j] = m[i] / (1 - std::pow(b1, t)) / (std::sqrt(v[i] / (1 - std::pow(b2, t))) + epsilon) + decay * w[i];
        w_squares += w[i] * w[i];
        u_squares += u[j] * u[j];
      }
      const bool scaled = slice.decay && w_squares > 0 && u_squares > 0;
      const double ratio = scaled ? std::sqrt(w_squares) / std::sqrt(u_squares) : 1.0;
      for (std::size_t j = 0; j < u.size(); ++j) w[static_cast<std::size_t>(slice.offset) + j] -= lr * ratio * u[j];
    }
  }
};

}  // namespace

TEST_CASE("LAMB and StableAdamW follow their formulas in double, for any cut of the ranges and any updating rank") {
  const std::string name = GENERATE("lamb", "stable_adamw");
  const bool reproducible = GENERATE(true, false), offload = GENERATE(true, false);
  const std::int64_t cut = GENERATE(0, 4096);  // of the owned ranges, or none
  const auto alone = comm::make_self_communicator();
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients);
  const std::int64_t size = store.arena_size();
  std::vector<float> start(static_cast<std::size_t>(size), 0.0f);
  for (std::size_t s = 0; s < 3; ++s) {
    const core::ParameterSlice& slice = store.slices()[s];
    const std::vector<float> values = test::normal_numbers(slice.size, static_cast<unsigned>(s) + 1, 0.5f);
    std::copy(values.begin(), values.end(), start.begin() + slice.offset);
  }
  core::copy_to_device(std::span<const float>(start), store.change_values());
  float* const gradients = store.gradients().data();
  std::vector<train::OwnedRange> owned = {{0, size, gradients}};
  if (cut > 0) owned = {{0, cut, gradients}, {cut, size - cut, gradients + cut}};
  train::Optimizer optimizer({.name = name, .values = {0.9, 0.99, 1e-6, 0.05}, .max_gradient_norm = 0}, store, owned,
                             offload, nullptr, {},
                             train::tensor_norm_scope(store.slices(), specs, *alone, reproducible));
  CHECK_FALSE(optimizer.steps_on_device());
  Reference expected{
      {start.begin(), start.end()}, std::vector<double>(start.size()), std::vector<double>(start.size())};
  for (int t = 1; t <= 3; ++t) {
    // The third gradient is one that the second moments have not seen yet.
    const float scale = t == 3 ? 0.7f : t == 2 ? 0.05f : 0.1f;
    std::vector<float> g = test::normal_numbers(size, 10u + static_cast<unsigned>(t), scale);
    core::copy_to_device(std::span<const float>(g), store.gradients());
    name == "lamb" ? expected.lamb(store, g, t) : expected.stable_adamw(store, g, t);
    optimizer.step(0.01, t, 1.0);
  }
  std::vector<float> found(start.size()), left(start.size());
  core::copy_to_host(store.values(), std::span<float>(found));
  core::copy_to_host(std::span<const float>(store.gradients()), std::span<float>(left));
  double largest = 0;
  for (const core::ParameterSlice& slice : store.slices()) {
    for (std::int64_t j = 0; j < slice.size; ++j) {
      const auto i = static_cast<std::size_t>(slice.offset + j);
      largest = std::max(largest, std::abs(static_cast<double>(found[i]) - expected.w[i]));
      CHECK(left[i] == 0.0f);
    }
  }
  // Values below 3 and three updates of at most 0.05, a few roundings each.
  INFO(name);
  CHECK(largest < 2e-6);
  if (name == "stable_adamw") CHECK((expected.smallest_rms < 1 && expected.largest_rms > 1.3));
}

TEST_CASE("rules say that they need norms of tensors") {
  const std::string name = GENERATE("lamb", "stable_adamw");
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients);
  const train::OwnedRange all{0, store.arena_size(), store.gradients().data()};
  CHECK_THROWS_AS(train::Optimizer({.name = name}, store, std::span(&all, 1)), core::Error);
}
