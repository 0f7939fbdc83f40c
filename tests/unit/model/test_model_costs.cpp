#include "bert_hpc/model/model_costs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/model/low_rank.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "bert_hpc/model/trainable.hpp"
#include "support/heads.hpp"

using namespace bert_hpc;
using namespace bert_hpc::model;
using layers::BatchShape;
using layers::PassWork;
using layers::Work;

namespace {

const BatchShape full = {.tokens = 4096, .squared_lengths = 32 * 128.0 * 128.0, .logit_positions = 32};

double flops(const PassWork& work) {
  return work.forward.flops + work.backward_input.flops + work.backward_weight.flops;
}

ModelPlan plan_of(const model::ModelConfig& config, const layers::HeadKind& kind) {
  return make_plan(config, kind, config.num_labels());
}

double hidden_of(const ModelPlan& plan) {
  return static_cast<double>(plan.width(0));
}

}  // namespace

TEST_CASE("a block's products are six operations a weight and token, and attention's twelve and two more") {
  const model::ModelConfig config;
  const ModelPlan plan = plan_of(config, test::classification_head);
  const model::ModelRange block{.first = 0, .last = 2, .embeddings = false, .head = false};
  model::ModelConfig one = config;
  one.num_hidden_layers = 1;
  // training_flops() leaves out that attention's backward computes its scores again: 2 of 14 parts of attention.
  const double attention = 12 * hidden_of(plan) * full.squared_lengths;
  const double expected =
      training_flops(plan_of(one, test::classification_head), {4096, full.squared_lengths, 0}) + attention / 6;
  // Sums of products of whole numbers below 2^53: equal but for the division by six.
  CHECK(std::abs(flops(range_costs(plan, block, full, 1).work) / expected - 1) < 1e-14);
  CHECK(std::abs(flops(range_costs(plan, block, full, 2).work) / expected - 0.5) < 1e-14);
}

TEST_CASE("magnitudes take one more product with each of their weights, and with dropout three") {
  const model::ModelRange last{.first = 22, .last = 24, .embeddings = false, .head = false};
  const auto work = [&last](bool magnitudes, double dropout) {
    ModelPlan plan = plan_of(model::ModelConfig(), test::classification_head);
    add_adapters(plan, {.magnitudes = magnitudes, .dropout = dropout, .targets = {"query", "value", "output.dense"}},
                 0);
    set_trains(plan, trainable_parameters(plan, {.parameters = "lora"}));
    return range_costs(plan, last, full, 1).work;
  };
  // The last block computes keys and values of all tokens, all else of the rows that the head reads.
  const double products = 2.0 * 768 * 768 * (32 + 4096 + 32) + 2.0 * 768 * 3072 * 32;
  CHECK(work(true, 0).backward_weight.flops - work(false, 0).backward_weight.flops == products);
  // Sums below 2^45, rounded by 2^-8 at most.
  CHECK(std::abs(flops(work(true, 0)) - flops(work(false, 0)) - products) < 1);
  CHECK(std::abs(flops(work(true, 0.1)) - flops(work(false, 0.1)) - 3 * products) < 1);
}

TEST_CASE("figures hold the head's products") {
  model::ModelConfig config;
  config.label_names = model::default_label_names(5);
  const layers::HeadKind kind = GENERATE(test::masked_lm_head, test::classification_head);
  const ModelPlan plan = plan_of(config, kind);
  const model::ModelRange head{.first = 24, .last = 24, .embeddings = false, .head = true};
  const BatchShape batch = {.tokens = 1000, .squared_lengths = 1e5, .logit_positions = 150};
  const double blocks = training_flops(plan, {1000, 1e5, 0});
  CHECK(training_flops(plan, {1000, 1e5, 150}) - blocks == flops(range_costs(plan, head, batch, 1).work));
  // 6 · 768 · (768 + outputs) a row.
  CHECK(training_flops(plan, {1000, 1e5, 150}) - blocks ==
        150.0 * 6 * 768 * (768 + (kind.predicts_tokens ? 30522 : 5)));
}

TEST_CASE("parts add up to the whole, in work and in parameters") {
  const ModelPlan plan = plan_of({}, test::masked_lm_head);
  const BatchShape batch = {.tokens = 1000, .squared_lengths = 1e5, .logit_positions = 150};
  const std::int64_t cut = GENERATE(1, 14, 15, 22, 23);  // between blocks, and inside the first and the last one
  const double whole = flops(range_costs(plan, {.first = 0, .last = 24}, batch, 1).work);
  const double first =
      flops(range_costs(plan, {.first = 0, .last = cut, .embeddings = true, .head = false}, batch, 1).work);
  const double second =
      flops(range_costs(plan, {.first = cut, .last = 24, .embeddings = false, .head = true}, batch, 1).work);
  CHECK(std::abs((first + second) / whole - 1) < 1e-14);
  // The decoder is there twice when the ends are separate.
  const double parts = range_parameters(plan, {.first = 0, .last = cut, .embeddings = true, .head = false}, 1) +
                       range_parameters(plan, {.first = cut, .last = 24, .embeddings = false, .head = true}, 1);
  CHECK(parts == range_parameters(plan, {.first = 0, .last = 24}, 1) + hidden_of(plan) * 30522);
}

TEST_CASE("parameters are counted as the model has them") {
  for (const layers::HeadKind& kind : {test::classification_head, test::masked_lm_head}) {
    const model::ModelConfig config;
    double count = 0;
    for (const core::ParameterSpec& spec : model::model_parameters(config, kind, config.num_labels())) {
      double size = 1;
      for (const std::int64_t extent : spec.shape) size *= static_cast<double>(extent);
      count += size;
    }
    CHECK(range_parameters(plan_of(config, kind), {.first = 0, .last = 24}, 1) == count);
  }
}

TEST_CASE("time is that of the operations and of the bytes") {
  core::MachineDescription machine;
  machine.flops = 100;
  machine.memory_bandwidth = 10;
  CHECK(seconds({200, 30}, machine) == 5.0);
  // Rates and overheads of their own for attention, element-wise kernels and passes.
  const Work work = {.flops = 200, .bytes = 30, .attention = 100, .moved = 20, .attention_rows = 6, .passes = 2};
  CHECK(seconds(work, machine) == 5.0);
  machine.attention_flops = 50;
  machine.activation_bandwidth = 40;
  machine.attention_row = 0.25;
  machine.pass_overhead = 0.125;
  CHECK(seconds(work, machine) == 1.0 + 2.0 + 1.0 + 0.5 + 1.5 + 0.25);
}

TEST_CASE("attention, activations and rows are parts of the work") {
  const ModelPlan plan = plan_of({}, test::classification_head);
  const PassWork work = range_costs(plan, {.first = 0, .last = 2, .embeddings = false, .head = false}, full, 1).work;
  CHECK(work.forward.attention == 4 * hidden_of(plan) * full.squared_lengths);
  CHECK(work.forward.attention_rows == full.tokens * 12);
  CHECK(work.forward.passes == 2);
  CHECK(work.forward.bytes - work.forward.moved == 4 * 12 * hidden_of(plan) * hidden_of(plan));  // the weights
}
