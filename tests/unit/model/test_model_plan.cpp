// Plans: what a family makes of a configuration, and what is refused because no layer computes it.
#include "bert_hpc/model/model_plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <utility>
#include <vector>

#include "support/heads.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string problems_of(const model::ModelPlan& plan) {
  core::ProblemList problems;
  model::check(plan, problems);
  try {
    problems.throw_if_any(core::ExitCode::input, "");
  } catch (const core::Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a plan of BERT lists attention and feed-forward of each block under Transformers' names") {
  model::ModelConfig config;
  config.num_hidden_layers = 2;
  const model::ModelPlan plan = model::make_plan(config, tests::classification_head, 3);
  REQUIRE(plan.sublayers.size() == 4);
  CHECK(plan.sublayers[2].names.query == "bert.encoder.layer.1.attention.self.query");
  CHECK(plan.sublayers[3].names.norm == "bert.encoder.layer.1.output.LayerNorm");
  CHECK(plan.sublayers[2].first_site == plan.sublayers[3].first_site);
  CHECK(plan.sublayers[1].first_site != plan.sublayers[2].first_site);
  CHECK(plan.head.outputs == 3);
  CHECK(plan.embeddings.lookup_only);
  const model::ModelPlan masked = model::make_plan(config, tests::masked_lm_head, 3);
  CHECK(masked.head.outputs == config.vocab_size);
  CHECK(!masked.embeddings.lookup_only);
  config.family = "gpt";
  CHECK_THROWS_WITH(model::make_plan(config, tests::classification_head, 3), ContainsSubstring("\"gpt\""));
}

TEST_CASE("choices that no layer computes are refused by name") {
  const model::ModelPlan built_in = model::make_plan({}, tests::classification_head, 2);
  CHECK(problems_of(built_in).empty());
  using Change = std::function<void(model::ModelPlan&)>;
  const std::vector<std::pair<Change, const char*>> changes = {
      {[](auto& p) { p.embeddings.position_kind = layers::Positions::rotary; }, "positions"},
      {[](auto& p) { p.sublayers[1].norm_place = layers::NormPlace::before; }, "place after the residual"},
      {[](auto& p) { p.sublayers[1].norm_kind = layers::NormKind::rms; }, "mean and variance"},
      {[](auto& p) { p.sublayers[3].gate = layers::Gate::multiplied; }, "gate"},
      {[](auto& p) { p.sublayers[3].activation = layers::Activation::gelu_tanh; }, "activation"},
      {[](auto& p) { p.sublayers[2].mask = layers::AttentionMask::causal; }, "attention"},
      {[](auto& p) { p.sublayers[2].biases = false; }, "bias"},
      {[](auto& p) { p.head.activation = layers::Activation::silu; }, "head"},
  };
  for (const auto& [change, word] : changes) {
    model::ModelPlan plan = built_in;
    change(plan);
    CHECK_THAT(problems_of(plan), ContainsSubstring(word));
  }
}
