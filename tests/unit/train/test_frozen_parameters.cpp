// Updates of a store with frozen parameters: the trainable ones change as in a store without the others, and these keep
// every bit.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <string>
#include <vector>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/ops/random_fill.hpp"
#include "bert_hpc/train/data_parallel.hpp"
#include "bert_hpc/train/optimizer.hpp"
#include "bert_hpc/train/weight_gradients.hpp"

using namespace bert_hpc;

namespace {

using Values = std::map<std::string, std::vector<float>>;

const std::vector<core::ParameterSpec> all = {{.name = "frozen", .shape = {50, 130}, .trainable = false},
                                              {.name = "weight", .shape = {40, 130}, .one_product = true},
                                              {.name = "also frozen", .shape = {30, 8}, .trainable = false},
                                              {.name = "bias", .shape = {40}, .decay = false}};

std::vector<core::ParameterSpec> trainable_alone() {
  std::vector<core::ParameterSpec> specs;
  for (const core::ParameterSpec& spec : all) {
    if (spec.trainable) specs.push_back(spec);
  }
  return specs;
}

void fill(core::ParameterStore& store) {
  for (std::size_t i = 0; i < store.slices().size(); ++i) {
    const core::Tensor<float> value = store.change_value(static_cast<int>(i));
    ops::fill_normal({value.data, static_cast<std::size_t>(value.size())}, 0.5f, store.slices()[i].name.size());
  }
}

Values values(const core::ParameterStore& store) {
  Values found;
  for (std::size_t i = 0; i < store.slices().size(); ++i) {
    const core::Tensor<const float> value = store.value(static_cast<int>(i));
    std::vector<float> copy(static_cast<std::size_t>(value.size()));
    core::copy_to_host(value.data, copy.data(), copy.size() * sizeof(float));
    found[store.slices()[i].name] = copy;
  }
  return found;
}

struct Trained {
  Values values;
  std::vector<double> norms;
  std::int64_t owned = 0, states = 0;
};

Trained train_some_steps(const std::vector<core::ParameterSpec>& specs, const std::string& optimizer,
                         const train::ShardSettings& settings) {
  const auto alone = comm::make_self_communicator();
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients,
                             train::shard_alignment(settings.reproducible, 1));
  fill(store);
  const auto sums = train::make_data_parallel(*alone, store, settings);
  train::Optimizer update({.name = optimizer}, store, sums->owned(), settings.offload, nullptr, {},
                          train::tensor_norm_scope(store.slices(), specs, *alone, settings.reproducible));
  Trained trained;
  for (std::int64_t step = 1; step <= 3; ++step) {
    sums->begin_step(1);
    for (std::size_t i = 0; i < store.slices().size(); ++i) {
      if (!store.slices()[i].trainable) continue;
      const core::Tensor<float> gradient = store.gradient(static_cast<int>(i));
      ops::fill_normal({gradient.data, static_cast<std::size_t>(gradient.size())}, 0.1f,
                       static_cast<std::uint64_t>(step) + store.slices()[i].name.size());
    }
    sums->finished(0);
    sums->end_micro_batch();
    sums->end_step();
    trained.norms.push_back(sums->gradient_norm());
    update.step(0.01, step, trained.norms.back());
    sums->share_parameters();
  }
  trained.values = values(store);
  for (const train::OwnedRange& range : sums->owned()) trained.owned += range.size;
  trained.states = static_cast<std::int64_t>(update.states().numbers(0).size());
  return trained;
}

}  // namespace

TEST_CASE("an update changes trainable parameters as if there were no others, and frozen ones not by a bit") {
  const std::string optimizer = GENERATE("adamw", "lamb");
  const bool reproducible = GENERATE(false, true), offload = GENERATE(false, true);
  const train::ShardSettings settings{.reproducible = reproducible, .offload = offload};
  INFO(optimizer << (reproducible ? ", reproducible" : "") << (offload ? ", offloaded" : ""));
  core::ParameterStore before(all, core::ParameterStore::Arenas::values);
  fill(before);
  const Trained alone = train_some_steps(trainable_alone(), optimizer, settings);
  const Trained mixed = train_some_steps(all, optimizer, settings);
  CHECK(mixed.norms == alone.norms);
  CHECK(mixed.owned == alone.owned);
  CHECK(mixed.states == alone.states);
  const Values start = values(before);
  for (const core::ParameterSpec& spec : all) {
    INFO(spec.name);
    CHECK(mixed.values.at(spec.name) == (spec.trainable ? alone.values : start).at(spec.name));
    CHECK((mixed.values.at(spec.name) == start.at(spec.name)) == !spec.trainable);
  }
}

TEST_CASE("the first micro-batch replaces gradients of trainable products alone") {
  std::vector<core::ParameterSpec> specs = all;
  specs[0].one_product = true;
  const core::ParameterStore store(specs, core::ParameterStore::Arenas::none);
  CHECK(train::replaced_gradients(store) == std::vector<train::ArenaRange>{{0, 40 * 130}});
}
