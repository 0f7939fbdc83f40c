// Coupled weight decay of every optimizer: what the optimizer makes, without any weight decay, of gradients to which
// weight_decay · w has been added.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/train/optimizer.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;

namespace {

const std::vector<core::ParameterSpec> specs = {{.name = "one", .shape = {50, 130}},
                                                {.name = "bias", .shape = {130}, .decay = false}};
constexpr double learning_rate = 0.01, weight_decay = 0.5;
constexpr int updates = 4;

enum class DecayOf { none, gradients, weights, weights_in_gradients };

/// Weights after the updates, with decay by the optimizer or by the gradients that it is given.
std::vector<float> trained(const std::string& name, bool offload, DecayOf decay) {
  const auto alone = comm::make_self_communicator();
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients);
  const std::int64_t size = store.arena_size();
  std::vector<float> w(static_cast<std::size_t>(size), 0.0f);
  for (const core::ParameterSlice& slice : store.slices()) {
    const std::vector<float> values = test::normal_numbers(slice.size, static_cast<unsigned>(slice.offset) + 1, 0.5f);
    std::copy(values.begin(), values.end(), w.begin() + slice.offset);
  }
  core::copy_to_device(std::span<const float>(w), store.change_values());
  const train::OwnedRange all{0, size, store.gradients().data()};
  const double own_decay = decay == DecayOf::gradients || decay == DecayOf::weights ? weight_decay : 0.0;
  train::Optimizer optimizer({.name = name,
                              .values = {0.9, 0.99, 1e-6, own_decay},
                              .max_gradient_norm = 0,
                              .coupled_decay = decay == DecayOf::gradients},
                             store, {&all, 1}, offload, nullptr, {},
                             train::tensor_norm_scope(store.slices(), specs, *alone, true));
  for (int t = 1; t <= updates; ++t) {
    std::vector<float> g = test::normal_numbers(size, 10u + static_cast<unsigned>(t), 0.1f);
    core::copy_to_host(store.values(), std::span<float>(w));
    for (const core::ParameterSlice& slice : store.slices()) {
      if (decay != DecayOf::weights_in_gradients || !slice.decay) continue;
      for (auto i = static_cast<std::size_t>(slice.offset); i < static_cast<std::size_t>(slice.offset + slice.size);
           ++i)
        g[i] += static_cast<float>(weight_decay) * w[i];
    }
    core::copy_to_device(std::span<const float>(g), store.gradients());
    optimizer.step(learning_rate, t, 1.0);
  }
  core::copy_to_host(store.values(), std::span<float>(w));
  return w;
}

/// Elements that differ by more than `allowed`.
std::int64_t count_different(const std::vector<float>& a, const std::vector<float>& b, float allowed) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += std::abs(a[i] - b[i]) > allowed ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("coupled weight decay is a part of the gradient, with every optimizer") {
  for (const ops::OptimizerKind& kind : ops::optimizer_kinds()) {
    for (const bool offload : {false, true}) {
      INFO(kind.input.name << (offload ? ", offloaded" : ""));
      const std::vector<float> found = trained(kind.input.name, offload, DecayOf::gradients);
      const std::vector<float> expected = trained(kind.input.name, offload, DecayOf::weights_in_gradients);
      const auto size = std::ssize(found);
      // Gradients differ in their last bit, weights below 3 by a few roundings; but where a gradient and the decay
      // cancel, that bit is much of what is left, and a moment in 8 bits may get the next code.
      CHECK(count_different(found, expected, 4e-6f) <= size / 500);
      CHECK(count_different(found, trained(kind.input.name, offload, DecayOf::weights), 1e-4f) > size / 2);
      CHECK(count_different(found, trained(kind.input.name, offload, DecayOf::none), 1e-4f) > size / 2);
    }
  }
}
