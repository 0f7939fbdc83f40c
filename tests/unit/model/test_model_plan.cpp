// Plans: what a family makes of a configuration.
#include "bert_hpc/model/model_plan.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "support/heads.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a plan of BERT lists attention and feed-forward of each block under Transformers' names") {
  model::ModelConfig config;
  config.num_hidden_layers = 2;
  const model::ModelPlan plan = model::make_plan(config, test::classification_head, 3);
  REQUIRE(plan.sublayers.size() == 4);
  CHECK(plan.sublayers[2].kind->linear_layers(plan.sublayers[2])[0].name ==
        "bert.encoder.layer.1.attention.self.query");
  CHECK(plan.sublayers[3].norm == "bert.encoder.layer.1.output.LayerNorm");
  CHECK(plan.sublayers[3].block == 1);
  CHECK(plan.sublayers[2].first_site == plan.sublayers[3].first_site);
  CHECK(plan.sublayers[1].first_site != plan.sublayers[2].first_site);
  CHECK(plan.head.outputs == 3);
  CHECK(layers::embeddings_settings(*plan.input).lookup_only);
  const model::ModelPlan masked = model::make_plan(config, test::masked_lm_head, 3);
  CHECK(masked.head.outputs == config.vocab_size);
  CHECK(!layers::embeddings_settings(*masked.input).lookup_only);
  config.family = "gpt";
  CHECK_THROWS_WITH(model::make_plan(config, test::classification_head, 3), ContainsSubstring("\"gpt\""));
}

TEST_CASE(
    "a plan of a Bi-LSTM has a block for each layer, the pooling and the dropout, which a pipeline can be cut "
    "between") {
  model::ModelConfig config = model::default_config("bilstm");
  config.embedding_size = 20;
  config.hidden_size = 24;
  const model::ModelPlan plan = model::make_plan(config, test::classification_head, 5);
  REQUIRE(plan.sublayer_count() == 4);
  CHECK(plan.sublayers_of_block() == 1);
  CHECK(plan.width(0) == 20);
  CHECK(plan.width(1) == 48);
  CHECK(plan.most_columns() == 48);
  CHECK(plan.selects_from == 2);
  CHECK(plan.sublayers[0].hidden_dropout == 0.1f);
  CHECK(plan.sublayers[1].hidden_dropout == 0.0f);  // as nn.LSTM, whose last layer has none
  CHECK(!plan.can_be_shared());
  CHECK(model::make_plan(model::ModelConfig(), test::classification_head, 5).can_be_shared());
  const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, model::whole(plan));
  REQUIRE(specs.size() == 1 + 2 * 8 + 2);
  CHECK(specs[1].name == "lstm.weight_ih_l0");
  CHECK(specs[2].name == "lstm.weight_ih_l0_reverse");
  CHECK(specs[2].joined);
  CHECK(specs[5].name == "lstm.bias_ih_l0");
  CHECK(!specs[5].decay);
  CHECK(specs[9].name == "lstm.weight_ih_l1");
  CHECK(specs[9].shape == std::vector<std::int64_t>{96, 48});
  CHECK_THROWS_WITH(model::make_plan(config, test::masked_lm_head, 2), ContainsSubstring("no head for masked tokens"));
}
