// Plans: what a family makes of a configuration.
#include "bert_hpc/model/model_plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "support/heads.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a plan of BERT lists attention and feed-forward of each block under Transformers' names") {
  model::ModelConfig config;
  config.num_hidden_layers = 2;
  const model::ModelPlan plan = model::make_plan(config, tests::classification_head, 3);
  REQUIRE(plan.sublayers.size() == 4);
  CHECK(plan.sublayers[2].kind->linear_layers(plan.sublayers[2])[0].name ==
        "bert.encoder.layer.1.attention.self.query");
  CHECK(plan.sublayers[3].norm == "bert.encoder.layer.1.output.LayerNorm");
  CHECK(plan.sublayers[3].block == 1);
  CHECK(plan.sublayers[2].first_site == plan.sublayers[3].first_site);
  CHECK(plan.sublayers[1].first_site != plan.sublayers[2].first_site);
  CHECK(plan.head.outputs == 3);
  CHECK(layers::embeddings_settings(*plan.input).lookup_only);
  const model::ModelPlan masked = model::make_plan(config, tests::masked_lm_head, 3);
  CHECK(masked.head.outputs == config.vocab_size);
  CHECK(!layers::embeddings_settings(*masked.input).lookup_only);
  config.family = "gpt";
  CHECK_THROWS_WITH(model::make_plan(config, tests::classification_head, 3), ContainsSubstring("\"gpt\""));
}
