// DeBERTa-v3: its config.json and its plan. Its numbers are checked against Transformers in
// tests/golden.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "support/heads.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

// The config.json of microsoft/deberta-v3-base.
const std::string v3_base =
    R"({"model_type": "deberta-v2", "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
  "max_position_embeddings": 512, "relative_attention": true, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
  "share_att_key": true, "pos_att_type": "p2c|c2p", "layer_norm_eps": 1e-7, "max_relative_positions": -1,
  "position_biased_input": false, "num_attention_heads": 12, "num_hidden_layers": 12, "type_vocab_size": 0,
  "vocab_size": 128100})";

std::string refusal_of(const nlohmann::json& changed) {
  try {
    const model::ModelConfig config = model::parse_hf_config(changed.dump(), "x");
    core::ProblemList problems;
    model::check_model(config, problems);
    problems.throw_if_any(core::ExitCode::input, "x");
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

std::string refusal_of(const std::string& key, const nlohmann::json& value) {
  nlohmann::json changed = nlohmann::json::parse(v3_base);
  changed[key] = value;
  return refusal_of(changed);
}

std::string refusal_without(const std::string& key) {
  nlohmann::json changed = nlohmann::json::parse(v3_base);
  changed.erase(key);
  return refusal_of(changed);
}

const core::ParameterSpec& named(const std::vector<core::ParameterSpec>& specs, const std::string& name) {
  for (const core::ParameterSpec& spec : specs) {
    if (spec.name == name) return spec;
  }
  throw std::runtime_error(name);
}

}  // namespace

TEST_CASE("DeBERTa's config.json makes an encoder with one table of distances for all blocks") {
  const model::ModelConfig config = model::parse_hf_config(v3_base, "x");
  const auto written = nlohmann::json::parse(model::hf_config_text(config, test::classification_head));
  const nlohmann::json given = nlohmann::json::parse(v3_base);
  for (const auto& [key, value] : given.items()) {
    INFO(key);
    if (key != "pos_att_type") CHECK(written[key] == value);
  }
  CHECK(written["pos_att_type"] == nlohmann::json{"p2c", "c2p"});  // as Transformers writes it
  CHECK(written["architectures"] == nlohmann::json{"DebertaV2ForSequenceClassification"});
  CHECK(refusal_of(written) == "no error");
  const model::ModelPlan plan = model::make_plan(config, test::classification_head, 2);
  CHECK(plan.has_relative_positions());
  const layers::EmbeddingsSettings& embeddings = layers::embeddings_settings(*plan.input);
  CHECK(embeddings.positions == 0);
  CHECK(embeddings.types == 0);
  const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, model::whole(plan));
  const std::string base = "deberta.encoder.";
  const core::ParameterSpec& table = named(specs, base + "rel_embeddings.weight");
  CHECK(table.shape == std::vector<std::int64_t>{512, 768});
  CHECK(table.decay);
  CHECK_FALSE(named(specs, base + "LayerNorm.weight").decay);
  for (int block = 1; block < 12; ++block) {
    const std::string own = base + "layer." + std::to_string(block) + ".attention.self.";
    CHECK(named(specs, own + "rel_embeddings.weight").copy_of == table.name);
    CHECK(named(specs, own + "rel_norm.weight").copy_of == base + "LayerNorm.weight");
    CHECK(named(specs, own + "rel_norm.bias").copy_of == base + "LayerNorm.bias");
  }
}

TEST_CASE("each rank of a tensor group has the whole table of distances") {
  const model::ModelPlan plan = model::make_plan(model::parse_hf_config(v3_base, "x"), test::classification_head, 3);
  const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, model::whole(plan), {1, 2});
  const core::ParameterSpec& table = named(specs, "deberta.encoder.rel_embeddings.weight");
  CHECK(table.shape == std::vector<std::int64_t>{512, 768});
  CHECK(table.shard == core::Shard());
}

TEST_CASE("DeBERTa's config.json may state what is usual, in every form of Transformers") {
  CHECK(refusal_of("pos_att_type", {"c2p", "p2c"}) == "no error");
  CHECK(refusal_of("pos_att_type", "c2p|p2c") == "no error");
  CHECK(refusal_of("pos_att_type", "C2P | p2c") == "no error");
  CHECK(refusal_of("cls_dropout", nullptr) == "no error");
  CHECK(refusal_of("pooler_dropout", 0) == "no error");
  CHECK(refusal_of("attention_head_size", 64) == "no error");
  CHECK(refusal_of("embedding_size", 768) == "no error");
  CHECK(refusal_of("max_relative_positions", 512) == "no error");
}

TEST_CASE("DeBERTa's head of masked tokens has the names that \"legacy\" says") {
  nlohmann::json changed = nlohmann::json::parse(v3_base);
  for (const bool legacy : {true, false}) {
    changed["legacy"] = legacy;
    const model::ModelConfig config = model::parse_hf_config(changed.dump(), "x");
    CHECK(nlohmann::json::parse(model::hf_config_text(config, test::masked_lm_head))["legacy"] == legacy);
    const model::ModelPlan plan = model::make_plan(config, test::masked_lm_head, 2);
    CHECK(plan.head.dense == (legacy ? "cls.predictions.transform.dense" : "lm_predictions.lm_head.dense"));
    CHECK(plan.head.norm == (legacy ? "cls.predictions.transform.LayerNorm" : "lm_predictions.lm_head.LayerNorm"));
    CHECK(plan.head.bias == (legacy ? "cls.predictions.bias" : "lm_predictions.lm_head.bias"));
  }
}

TEST_CASE("settings of DeBERTa that would give other results are refused by name") {
  CHECK_THAT(refusal_of("pos_att_type", "c2p"), ContainsSubstring("pos_att_type is \"c2p\", but only \"p2c|c2p\""));
  CHECK_THAT(refusal_of("pos_att_type", {"p2c"}), ContainsSubstring("pos_att_type is [\"p2c\"], but only"));
  CHECK_THAT(refusal_without("pos_att_type"), ContainsSubstring("pos_att_type is missing, but only"));
  CHECK_THAT(refusal_without("relative_attention"), ContainsSubstring("relative_attention is missing, but only true"));
  CHECK_THAT(refusal_without("position_biased_input"), ContainsSubstring("position_biased_input is missing"));
  CHECK_THAT(refusal_of("share_att_key", false), ContainsSubstring("share_att_key is false, but only true"));
  CHECK_THAT(refusal_of("norm_rel_ebd", "none"), ContainsSubstring("norm_rel_ebd is \"none\", but only"));
  CHECK_THAT(refusal_of("conv_kernel_size", 3), ContainsSubstring("the convolution of deberta-v2-xlarge"));
  CHECK_THAT(refusal_of("type_vocab_size", 2), ContainsSubstring("type_vocab_size is 2, but"));
  CHECK_THAT(refusal_of("embedding_size", 128), ContainsSubstring("embedding_size is 128, but only 768"));
  CHECK_THAT(refusal_of("hidden_act", "relu"), ContainsSubstring("hidden_act"));
  CHECK_THAT(refusal_of("pooler_hidden_act", "tanh"), ContainsSubstring("pooler_hidden_act"));
  CHECK_THAT(refusal_without("position_buckets"),
             ContainsSubstring("position_buckets is 0, but must be an even number"));
  CHECK_THAT(refusal_of("position_buckets", 9), ContainsSubstring("position_buckets is 9, but must be an even number"));
  CHECK_THAT(refusal_of("max_position_embeddings", 128),
             ContainsSubstring("max_position_embeddings is 128, but must be from 130 to"));
  CHECK_THAT(refusal_of("max_relative_positions", 100),
             ContainsSubstring("max_relative_positions is 100, but must be"));
}
