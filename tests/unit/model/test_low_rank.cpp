// Which layers of a model get low-rank adapters, and how PEFT's names say so.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "bert_hpc/model/low_rank.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/trainable.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using model::LowRankSettings;

namespace {

model::ModelPlan plan_of(const std::string& family = "bert") {
  model::ModelConfig config;
  config.family = family;
  config.vocab_size = 50;
  config.hidden_size = 16;
  config.num_attention_heads = 2;
  config.num_hidden_layers = 3;
  config.intermediate_size = 24;
  return model::make_plan(config, layers::sequence_head(), 2);
}

std::vector<std::string> adapted(const model::ModelPlan& plan) {
  std::vector<std::string> names;
  for (const model::BlockLayer& layer : model::block_layers(plan)) {
    if (layer.adapted) names.push_back(layer.name);
  }
  return names;
}

std::string message(const LowRankSettings& settings, std::int64_t frozen = 0) {
  model::ModelPlan plan = plan_of();
  try {
    model::add_adapters(plan, settings, frozen);
  } catch (const core::Error& error) {
    CHECK(error.code() == core::ExitCode::input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Targets are last parts of names, whole names or all layers", "[model][low_rank]") {
  model::ModelPlan plan = plan_of();
  CHECK(model::block_layers(plan).size() == 18);
  model::add_adapters(plan, {.rank = 4}, 1);
  CHECK(adapted(plan) == std::vector<std::string>{
                             "bert.encoder.layer.1.attention.self.query", "bert.encoder.layer.1.attention.self.value",
                             "bert.encoder.layer.2.attention.self.query", "bert.encoder.layer.2.attention.self.value"});
  // Short names would name the frozen block's layers too.
  CHECK(model::target_modules(plan) == adapted(plan));
  plan = plan_of();
  model::add_adapters(plan, {.rank = 4, .targets = {"output.dense"}}, 0);
  CHECK(adapted(plan).size() == 6);
  CHECK(model::target_modules(plan) == std::vector<std::string>{"attention.output.dense", "output.dense"});
  plan = plan_of();
  model::add_adapters(plan, {.rank = 4, .targets = {"all-linear"}}, 0);
  CHECK(adapted(plan).size() == 18);
  plan = plan_of("distilbert");
  model::add_adapters(plan, {.rank = 4}, 0);
  CHECK(model::target_modules(plan) == std::vector<std::string>{"attention.q_lin", "attention.v_lin"});
  CHECK(model::adapted_layer(plan, "distilbert.transformer.layer.2.attention.v_lin.weight") ==
        "distilbert.transformer.layer.2.attention.v_lin");
  CHECK_FALSE(model::adapted_layer(plan, "distilbert.transformer.layer.2.attention.k_lin.weight"));
  CHECK_FALSE(model::adapted_layer(plan, "distilbert.transformer.layer.2.attention.v_lin.bias"));
}

TEST_CASE("All targets that match nothing are named with their nearest names", "[model][low_rank]") {
  CHECK(message({.targets = {"querry", "value", "pooler"}}).find("value\" in") == std::string::npos);
  CHECK_THAT(message({.targets = {"querry", "pooler"}}), ContainsSubstring("did you mean \"query\"") &&
                                                             ContainsSubstring("\"pooler\"") &&
                                                             ContainsSubstring("\"attention.output.dense\""));
  CHECK_THAT(message({.rank = 16}), ContainsSubstring("rank = 16 is not below") && ContainsSubstring("16 × 16") &&
                                        ContainsSubstring("from 1 to 15"));
  CHECK(message({.rank = 15}).empty());
  CHECK_THAT(message({.rank = 4}, 3), ContainsSubstring("freeze_layers = 3 leaves no layer"));
}

TEST_CASE("A training of adapters changes them, and the head if asked to", "[model][low_rank]") {
  model::ModelPlan plan = plan_of();
  model::add_adapters(plan, {.rank = 4}, 0);
  const model::Trains trains = model::trainable_parameters(plan, {.parameters = "lora"});
  CHECK(trains("bert.encoder.layer.0.attention.self.query.lora_A.weight"));
  CHECK(trains("bert.encoder.layer.2.attention.self.value.lora_B.weight"));
  CHECK(trains("classifier.weight"));
  const model::Trains alone = model::trainable_parameters(plan, {.parameters = "lora", .head = false});
  CHECK(alone("bert.encoder.layer.0.attention.self.query.lora_A.weight"));
  CHECK_FALSE(alone("classifier.weight"));
  CHECK_FALSE(alone("bert.pooler.dense.bias"));
  CHECK_FALSE(trains("bert.encoder.layer.0.attention.self.query.weight"));
  CHECK_FALSE(trains("bert.encoder.layer.0.output.LayerNorm.weight"));
  CHECK_FALSE(trains("bert.embeddings.word_embeddings.weight"));
}

TEST_CASE("Adapters are merged by their scale", "[model][low_rank]") {
  CHECK(LowRankSettings{.rank = 4, .alpha = 8}.scale() == 2);
  CHECK(LowRankSettings{.rank = 4, .alpha = 8, .rank_stabilized = true}.scale() == 4);
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, -1, 0.5f, 2};  // (2, 3), (2, 2)
  std::vector<float> w = {10, 20, 30, 40, 50, 60};                        // (2, 3)
  model::merge_adapter({.scale = 2, .a = {a.data(), 2, 3}, .b = {b.data(), 2, 2}}, {w.data(), 2, 3});
  CHECK(w == std::vector<float>{16, 29, 42, 54, 66, 78});
  const std::vector<float> magnitudes = {10, 5}, none = {0, 0, 0};
  std::vector<float> rows = {3, 4, 0, 0, 0, 0};
  const model::AdapterValues adapter = {
      .a = {none.data(), 1, 3}, .b = {none.data(), 1, 2}, .magnitudes = magnitudes.data()};
  model::merge_adapter(adapter, {rows.data(), 2, 3});
  CHECK(rows == std::vector<float>{6, 8, 0, 0, 0, 0});  // a row of zeros stays
}
