// ESM: its config.json and what of a plan is its own. Its numbers are checked against Transformers in tests/golden.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "support/heads.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

// The config.json of facebook/esm2_t6_8M_UR50D.
const std::string esm2 =
    R"({"model_type": "esm", "architectures": ["EsmForMaskedLM"], "attention_probs_dropout_prob": 0.0,
  "classifier_dropout": null, "emb_layer_norm_before": false, "esmfold_config": null, "hidden_act": "gelu",
  "hidden_dropout_prob": 0.0, "hidden_size": 320, "initializer_range": 0.02, "intermediate_size": 1280,
  "is_folding_model": false, "layer_norm_eps": 1e-05, "mask_token_id": 32, "max_position_embeddings": 1026,
  "num_attention_heads": 20, "num_hidden_layers": 6, "pad_token_id": 1, "position_embedding_type": "rotary",
  "token_dropout": true, "use_cache": true, "vocab_list": null, "vocab_size": 33})";

std::string refusal_of(const std::string& key, const nlohmann::json& value) {
  nlohmann::json changed = nlohmann::json::parse(esm2);
  changed[key] = value;
  try {
    model::parse_hf_config(changed.dump(), "x");
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("ESM-2's config.json makes a pre-norm encoder with rotary positions and token dropout") {
  const model::ModelConfig config = model::parse_hf_config(esm2, "x");
  const auto written = nlohmann::json::parse(model::hf_config_text(config, test::masked_lm_head));
  const nlohmann::json given = nlohmann::json::parse(esm2);
  for (const auto& [key, value] : given.items()) {
    if (value.is_null() || key == "use_cache") continue;
    INFO(key);
    CHECK(written[key] == value);
  }
  const model::ModelPlan plan = model::make_plan(model::parse_hf_config(written.dump(), "x"), test::masked_lm_head, 2);
  const layers::EmbeddingsSettings& embeddings = layers::embeddings_settings(*plan.input);
  CHECK(embeddings.token_dropout.mask_token == 32);
  CHECK(embeddings.token_dropout.kept == 1 - 0.15f * 0.8f);
  CHECK(embeddings.positions == 0);
  CHECK(embeddings.types == 0);
  CHECK(embeddings.norm == "esm.encoder.layer.0.attention.LayerNorm");
  CHECK(plan.sublayers[0].kind->computes_like(
      *layers::attention_sublayer({.heads = 20, .dropout = 0, .rotary_theta = 10000})));
  CHECK(plan.sublayers[0].norm == "esm.encoder.layer.0.LayerNorm");
  CHECK(plan.sublayers[1].norm == "esm.encoder.layer.1.attention.LayerNorm");
  CHECK(plan.sublayers.back().norm == "esm.encoder.emb_layer_norm_after");
  CHECK(model::reads_mask_tokens(config));
}

TEST_CASE("embeddings of an ESM have no dropout, whatever the rest has, and its head of sequences drops its input") {
  model::ModelConfig config = model::default_config("esm");
  CHECK(model::own_numbers(config).front().second == 0.0);
  REQUIRE(model::set_own_number(config, "hidden_dropout_prob", 0.5));
  const model::ModelPlan plan = model::make_plan(config, test::classification_head, 3);
  CHECK(layers::embeddings_settings(*plan.input).hidden_dropout == 0.0f);
  CHECK(plan.sublayers[0].hidden_dropout == 0.5f);
  CHECK(plan.head.input_dropout == 0.5f);
  CHECK(plan.head.classifier == "classifier.out_proj");
}

TEST_CASE("what of an ESM would give other results is refused by name") {
  CHECK(refusal_of("use_cache", false) == "no error");
  CHECK_THAT(refusal_of("position_embedding_type", "absolute"), ContainsSubstring("as of ESM-1b and ESM-1v"));
  CHECK_THAT(refusal_of("position_embedding_type", nullptr), ContainsSubstring("only \"rotary\" (ESM-2) is built in"));
  CHECK_THAT(refusal_of("emb_layer_norm_before", true), ContainsSubstring("emb_layer_norm_before is true"));
  CHECK_THAT(refusal_of("is_folding_model", true), ContainsSubstring("structures are not predicted"));
  CHECK_THAT(refusal_of("is_decoder", true), ContainsSubstring("is_decoder is true"));
  CHECK_THAT(refusal_of("mask_token_id", nullptr), ContainsSubstring("mask_token_id is missing"));
  CHECK_THAT(refusal_of("token_dropout", "yes"), ContainsSubstring("token_dropout must be true or false"));
  CHECK_THAT(refusal_of("num_attention_heads", 320), ContainsSubstring("need an even number"));
  CHECK_THAT(refusal_of("rope_theta", 0), ContainsSubstring("rope_theta must be above 0"));
}
