// MPNet: its config.json and what of a plan is its own. Its numbers are checked against Transformers in tests/golden.
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

// The config.json of sentence-transformers/all-mpnet-base-v2.
const std::string all_mpnet =
    R"({"model_type": "mpnet", "architectures": ["MPNetForMaskedLM"], "attention_probs_dropout_prob": 0.1,
  "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
  "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-05, "max_position_embeddings": 514,
  "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 1, "relative_attention_num_buckets": 32,
  "vocab_size": 30527})";

std::string refusal_of(const std::string& key, const nlohmann::json& value) {
  nlohmann::json changed = nlohmann::json::parse(all_mpnet);
  changed[key] = value;
  try {
    model::parse_hf_config(changed.dump(), "x");
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

const core::ParameterSpec& named(const std::vector<core::ParameterSpec>& specs, const std::string& name) {
  for (const core::ParameterSpec& spec : specs) {
    if (spec.name == name) return spec;
  }
  throw std::runtime_error(name);
}

}  // namespace

TEST_CASE("MPNet's config.json makes RoBERTa's encoder without types, with one position bias of all blocks") {
  const model::ModelConfig config = model::parse_hf_config(all_mpnet, "x");
  CHECK(config.max_position_embeddings == 512);
  const auto written = nlohmann::json::parse(model::hf_config_text(config, test::masked_lm_head));
  const nlohmann::json given = nlohmann::json::parse(all_mpnet);
  for (const auto& [key, value] : given.items()) {
    INFO(key);
    if (key != "bos_token_id" && key != "eos_token_id") CHECK(written[key] == value);
  }
  CHECK(!written.contains("type_vocab_size"));
  const model::ModelPlan plan = model::make_plan(config, test::masked_lm_head, 2);
  const layers::EmbeddingsSettings& embeddings = layers::embeddings_settings(*plan.input);
  CHECK(embeddings.first_position == 2);
  CHECK(embeddings.types == 0);
  const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, model::whole(plan));
  const std::string bias = "relative_attention_bias.weight";
  const core::ParameterSpec& first = named(specs, "mpnet.encoder." + bias);
  CHECK(first.shape == std::vector<std::int64_t>{12, 32});
  CHECK(first.copy_of.empty());
  for (int block = 1; block < 12; ++block) {
    const std::string name = "mpnet.encoder.layer." + std::to_string(block) + ".attention.attn." + bias;
    CHECK(named(specs, name).copy_of == first.name);
  }
  CHECK(model::stored_shape(plan.weights.source_of(first.name), first.shape) == std::vector<std::int64_t>{32, 12});
}

TEST_CASE("tensor ranks have the position bias of their heads") {
  const model::ModelPlan plan = model::make_plan(model::parse_hf_config(all_mpnet, "x"), test::classification_head, 3);
  const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, model::whole(plan), {1, 2});
  const core::ParameterSpec& bias = named(specs, "mpnet.encoder.relative_attention_bias.weight");
  CHECK(bias.shape == std::vector<std::int64_t>{6, 32});
  CHECK(bias.shard == core::Shard{0, 6, 12});
}

TEST_CASE("what of an MPNet would give other results is refused by name") {
  CHECK(refusal_of("use_cache", false) == "no error");
  CHECK_THAT(refusal_of("relative_attention_num_buckets", 16), ContainsSubstring("distances have 32 buckets"));
  CHECK_THAT(refusal_of("hidden_act", "relu"), ContainsSubstring("hidden_act"));
  CHECK_THAT(refusal_of("pad_token_id", 0), ContainsSubstring("pad_token_id is 0, but MPNet's positions begin behind"));
}
