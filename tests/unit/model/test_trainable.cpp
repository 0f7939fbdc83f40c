// What a partial fine-tuning changes, by names; which parts of a pipeline then need the gradient at their inputs.
#include "bert_hpc/model/trainable.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <set>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_costs.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "support/heads.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using model::TrainableSettings;

namespace {

model::ModelConfig small_config() {
  model::ModelConfig config;
  config.vocab_size = 23;
  config.hidden_size = 24;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 3;
  config.intermediate_size = 40;
  return config;
}

model::ModelPlan plan_of(const layers::HeadKind& kind) {
  return model::make_plan(small_config(), kind, 5);
}

model::ModelPlan plan_of(const layers::HeadKind& kind, const TrainableSettings& settings) {
  model::ModelPlan plan = plan_of(kind);
  model::set_trains(plan, model::trainable_parameters(plan, settings));
  return plan;
}

std::set<std::string> trained(const layers::HeadKind& kind, const TrainableSettings& settings) {
  const model::ModelPlan plan = plan_of(kind, settings);
  std::set<std::string> names;
  for (const core::ParameterSpec& spec : model::model_parameters(plan, model::whole(plan))) {
    if (spec.trainable) names.insert(spec.name);
  }
  return names;
}

std::size_t parameters(const layers::HeadKind& kind) {
  return model::model_parameters(small_config(), kind, 5).size();
}

const std::set<std::string> classifier = {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight",
                                          "classifier.bias"};

}  // namespace

TEST_CASE("without the keys nothing is frozen") {
  CHECK_FALSE(model::trainable_parameters(plan_of(test::classification_head), {}));
  CHECK_FALSE(model::trainable_parameters(plan_of(test::masked_lm_head), {.from_scratch = true}));
  CHECK(trained(test::classification_head, {}).size() == parameters(test::classification_head));
}

TEST_CASE("the head alone is pooler and classifier, or what masked language modelling adds but the embeddings") {
  CHECK(trained(test::classification_head, {.parameters = "head"}) == classifier);
  CHECK(trained(test::regression_head, {.parameters = "head", .freeze_layers = 2}) == classifier);
  CHECK(trained(test::masked_lm_head, {.parameters = "head"}) ==
        std::set<std::string>{"cls.predictions.bias", "cls.predictions.transform.dense.weight",
                              "cls.predictions.transform.dense.bias", "cls.predictions.transform.LayerNorm.weight",
                              "cls.predictions.transform.LayerNorm.bias"});
}

TEST_CASE("BitFit trains every bias and the head") {
  const std::set<std::string> found = trained(test::classification_head, {.parameters = "bitfit"});
  CHECK(found.contains("bert.embeddings.LayerNorm.bias"));
  CHECK(found.contains("bert.encoder.layer.0.attention.self.query.bias"));
  CHECK(found.contains("bert.encoder.layer.2.output.LayerNorm.bias"));
  CHECK(found.contains("bert.pooler.dense.weight"));
  CHECK_FALSE(found.contains("bert.encoder.layer.2.output.LayerNorm.weight"));
  CHECK_FALSE(found.contains("bert.embeddings.word_embeddings.weight"));
  CHECK(found.size() == 1 + 3 * 8 + 4);  // of a block: six products, two layer norms
  const std::set<std::string> above = trained(test::classification_head, {.parameters = "bitfit", .freeze_layers = 2});
  CHECK(above.size() == 8 + 4);
  CHECK_FALSE(above.contains("bert.embeddings.LayerNorm.bias"));
}

TEST_CASE("frozen layers are the embeddings and the lowest blocks") {
  const std::set<std::string> one = trained(test::classification_head, {.freeze_layers = 1});
  CHECK(one.size() == parameters(test::classification_head) - 5 - 16);
  CHECK_FALSE(one.contains("bert.embeddings.LayerNorm.weight"));
  CHECK_FALSE(one.contains("bert.encoder.layer.0.output.dense.bias"));
  CHECK(one.contains("bert.encoder.layer.1.attention.self.query.weight"));
  CHECK(trained(test::classification_head, {.freeze_layers = 3}) == classifier);
  CHECK_THROWS_WITH(trained(test::classification_head, {.freeze_layers = 4}),
                    ContainsSubstring("freeze_layers = 4, but the model has 3 layers"));
}

TEST_CASE("tied embeddings of a pretrained model may be frozen, random ones not") {
  for (const TrainableSettings& settings :
       {TrainableSettings{.parameters = "head"}, {.parameters = "bitfit"}, {.freeze_layers = 1}}) {
    CHECK_FALSE(trained(test::masked_lm_head, settings).contains("bert.embeddings.word_embeddings.weight"));
    TrainableSettings random = settings;
    random.from_scratch = true;
    CHECK_THROWS_WITH(trained(test::masked_lm_head, random), ContainsSubstring("set model.pretrained"));
    CHECK_NOTHROW(trained(test::classification_head, random));
  }
}

TEST_CASE("a decoder that is a copy is trained as the word embeddings are") {
  for (const bool frozen : {false, true}) {
    const model::ModelPlan plan = plan_of(test::masked_lm_head, {.freeze_layers = frozen ? 1 : 0});
    model::ModelRange range = model::whole(plan);
    range.separate_decoder = true;
    const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, range);
    CHECK(specs.back().copy_of == "bert.embeddings.word_embeddings.weight");
    CHECK(specs.back().trainable == !frozen);
  }
}

TEST_CASE("a part needs the gradient at its input where a part below it is trained") {
  const auto sends = [](const TrainableSettings& settings) {
    std::vector<model::ModelRange> parts = model::partition(6, {}, model::equal_costs(6));
    model::set_sends_gradient(parts, plan_of(test::classification_head, settings));
    std::string all;
    for (const model::ModelRange& part : parts) all += part.sends_gradient ? '1' : '0';
    return all;
  };
  CHECK(sends({}) == "111111");  // before the first one are the embeddings
  CHECK(sends({.parameters = "bitfit"}) == "111111");
  CHECK(sends({.freeze_layers = 1}) == "000111");
  CHECK(sends({.parameters = "head"}) == "000000");
}

TEST_CASE("costs are those of the passes that a partial training has") {
  const layers::BatchShape batch{.tokens = 100, .squared_lengths = 1000, .logit_positions = 10};
  const layers::HeadKind& kind = test::classification_head;
  const auto flops = [&](const TrainableSettings& settings) {
    return model::training_flops(plan_of(kind, settings), batch);
  };
  const model::ModelPlan all = plan_of(kind);
  const double head = 3 * layers::head_costs(all.head, batch).work.forward.flops;
  const double blocks = flops({}) - head;
  CHECK(flops({}) == model::training_flops(all, batch));
  // Forward is a third; so is what a gradient of inputs takes, and what gradients of weights take.
  CHECK(std::abs(flops({.parameters = "head"}) - (head + blocks / 3)) < 1e-9 * blocks);
  CHECK(std::abs(flops({.parameters = "bitfit"}) - (head + 2 * blocks / 3)) < 1e-9 * blocks);
  CHECK(std::abs(flops({.freeze_layers = 2}) - (head + blocks / 3 + 2 * blocks / 9)) < 1e-9 * blocks);

  const model::ModelPlan some = plan_of(kind, {.freeze_layers = 2});
  const layers::LayerCosts frozen = model::range_costs(some, {.first = 0, .last = 4, .head = false}, batch);
  const layers::LayerCosts whole = model::range_costs(all, {.first = 0, .last = 4, .head = false}, batch);
  CHECK(frozen.work.forward.flops == whole.work.forward.flops);
  CHECK(frozen.work.backward_input.flops == 0);
  CHECK(frozen.work.backward_weight.bytes == 0);
  CHECK(frozen.deferred_bytes == 0);
  CHECK(frozen.saved_bytes < whole.saved_bytes);
  CHECK(model::range_trainable_parameters(some, {.first = 0, .last = 4, .head = false}) == 0);
  CHECK(model::range_trainable_parameters(all, model::whole(all)) == model::range_parameters(all, model::whole(all)));
}
