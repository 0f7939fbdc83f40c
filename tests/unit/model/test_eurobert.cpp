// EuroBERT: its config.json and what of a plan is its own; decoders that are not the word embeddings, of any family.
// Its numbers are checked against Transformers in tests/golden.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
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

// The keys of EuroBERT-210m's config.json, with those of its remote code.
const std::string eurobert_210m =
    R"({"model_type": "eurobert", "architectures": ["EuroBertForMaskedLM"], "attention_bias": false,
  "attention_dropout": 0.0, "bos_token_id": 128000, "clf_pooling": "late", "eos_token_id": 128001, "head_dim": 64,
  "hidden_act": "silu", "hidden_dropout": 0.0, "hidden_size": 768, "initializer_range": 0.02,
  "intermediate_size": 3072, "mask_token_id": 128002, "max_position_embeddings": 8192, "mlp_bias": false,
  "num_attention_heads": 12, "num_hidden_layers": 12, "num_key_value_heads": 12, "pad_token_id": 128001,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 250000,
  "tie_word_embeddings": false, "vocab_size": 128256})";

model::ModelConfig changed(const std::string& key, const nlohmann::json& value) {
  nlohmann::json root = nlohmann::json::parse(eurobert_210m);
  root[key] = value;
  return model::parse_hf_config(root.dump(), "x");
}

const core::ParameterSpec* find(const std::vector<core::ParameterSpec>& specs, const std::string& name) {
  const auto found =
      std::find_if(specs.begin(), specs.end(), [&](const core::ParameterSpec& spec) { return spec.name == name; });
  return found == specs.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("EuroBERT's config.json makes a pre-norm encoder of RMS norms with a decoder of its own") {
  const model::ModelConfig config = model::parse_hf_config(eurobert_210m, "x");
  CHECK_FALSE(config.ties_word_embeddings);
  const model::ModelPlan plan = model::make_plan(config, test::masked_lm_head, 2);
  const layers::EmbeddingsSettings& embeddings = layers::embeddings_settings(*plan.input);
  CHECK((embeddings.positions == 0 && embeddings.types == 0 && embeddings.lookup_only));
  CHECK(embeddings.norm == "model.layers.0.input_layernorm");
  for (const layers::SublayerSettings& sublayer : plan.sublayers) {
    CHECK(sublayer.norm_kind == layers::NormKind::rms);
    CHECK_FALSE(sublayer.biases);
    CHECK(sublayer.hidden_dropout == 0.0f);
  }
  CHECK(plan.sublayers.back().norm == "model.norm");
  const auto attention = layers::attention_sublayer({.heads = 12, .dropout = 0, .rotary_theta = 250000});
  CHECK(plan.sublayers[0].kind->computes_like(*attention));
  const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, model::whole(plan));
  const core::ParameterSpec* const decoder = find(specs, "lm_head.weight");
  REQUIRE(decoder != nullptr);
  CHECK((decoder->copy_of.empty() && decoder->zero_row == -1));
  CHECK(decoder->shape == std::vector<std::int64_t>{128256, 768});
  CHECK(std::none_of(specs.begin(), specs.end(),
                     [](const core::ParameterSpec& spec) { return spec.name.ends_with(".bias"); }));
}

TEST_CASE("EuroBERT's config.json is written with Transformers' keys") {
  const auto written =
      nlohmann::json::parse(model::hf_config_text(model::parse_hf_config(eurobert_210m, "x"), test::masked_lm_head));
  const nlohmann::json given = nlohmann::json::parse(eurobert_210m);
  for (const auto& [key, value] : given.items()) {
    INFO(key);
    if (key == "clf_pooling") {
      CHECK(written["classifier_pooling"] == value);
    } else if (key == "rope_theta") {
      CHECK(written["rope_parameters"]["rope_theta"] == value);
    } else if (key != "hidden_dropout" && key != "pretraining_tp" && key != "rope_scaling") {
      CHECK(written[key] == value);
    }
  }
  CHECK(model::default_config("eurobert").ties_word_embeddings == false);
}

TEST_CASE("EuroBERT's classifiers read the first token, the mean, or pool behind the dense layer") {
  for (const char* const pooling : {"bos", "mean", "late"}) {
    const model::ModelPlan plan =
        model::make_plan(changed("classifier_pooling", pooling), test::classification_head, 3);
    CHECK(plan.head.pooling.has_value() == (pooling != std::string("bos")));
    CHECK(plan.head.pools_dense == (pooling == std::string("late")));
    CHECK(plan.head.dense == "dense");
  }
  CHECK_THROWS_WITH(changed("classifier_pooling", "max"),
                    ContainsSubstring("classifier_pooling is \"max\", but must be \"bos\", \"mean\" or \"late\""));
}

TEST_CASE("heads of queries share those of keys and values, whose weights have fewer rows") {
  const model::ModelConfig config = changed("num_key_value_heads", 4);
  CHECK(nlohmann::json::parse(model::hf_config_text(config, test::masked_lm_head))["num_key_value_heads"] == 4);
  const model::ModelPlan plan = model::make_plan(config, test::masked_lm_head, 2);
  for (const int ranks : {1, 2}) {
    const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, model::whole(plan), {0, ranks});
    const auto rows = [&](const std::string& name) {
      return find(specs, "model.layers.3.self_attn." + name + "_proj.weight")->shape.at(0);
    };
    CHECK(rows("q") == 768 / ranks);
    CHECK(rows("k") == 256 / ranks);
    CHECK(rows("v") == 256 / ranks);
  }
}

TEST_CASE("what would give other results than EuroBERT's is refused") {
  for (const int heads : {-1, 0, 5, 24}) {
    CHECK_THROWS_WITH(
        changed("num_key_value_heads", heads),
        ContainsSubstring("num_key_value_heads must be a whole number that divides num_attention_heads, 12."));
  }
  CHECK_THROWS_WITH(changed("head_dim", 32), ContainsSubstring("head_dim is 32, but each head has its share"));
  CHECK_THROWS_WITH(changed("mlp_bias", true), ContainsSubstring("mlp_bias is true"));
  CHECK_THROWS_WITH(changed("hidden_act", "gelu"), ContainsSubstring("hidden_act is \"gelu\""));
  CHECK_THROWS_WITH(changed("rope_scaling", {{"rope_type", "llama3"}, {"factor", 2.0}}),
                    ContainsSubstring("rope_scaling"));
}

TEST_CASE("tie_word_embeddings decides in every family whether the decoder is a parameter of its own") {
  const bool ties = GENERATE(true, false);
  for (const char* const family : {"bert", "gpt2", "roberta", "eurobert"}) {
    INFO(family);
    nlohmann::json root = {{"model_type", family}, {"vocab_size", 40}, {"tie_word_embeddings", ties}};
    const model::ModelConfig config = model::parse_hf_config(root.dump(), "x");
    const layers::HeadKind kind = family == std::string("gpt2") ? test::causal_lm_head : test::masked_lm_head;
    CHECK(nlohmann::json::parse(model::hf_config_text(config, kind))["tie_word_embeddings"] == ties);
    const model::ModelPlan plan = model::make_plan(config, kind, 2);
    const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, model::whole(plan));
    CHECK((find(specs, plan.head.decoder) != nullptr) == !ties);
    CHECK(plan.weights.tied().empty() == !ties);
    CHECK(plan.head.ties_word_embeddings == ties);
  }
}
