// ModernBERT's config.json in both generations of keys, what of a plan is its own, and its initial values (its numbers
// are checked against Transformers in tests/golden, gradients in tests/gradient).
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "support/heads.hpp"
#include "support/vector.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

model::ModelConfig parsed(const json& more) {
  json root = {{"model_type", "modernbert"}, {"hidden_size", 24},       {"num_attention_heads", 2},
               {"num_hidden_layers", 4},     {"intermediate_size", 40}, {"vocab_size", 23}};
  if (!more.is_null()) root.update(more);
  return model::parse_hf_config(root.dump(), "config.json");
}

/// Which attentions of the plan compute the same as one with this mask and angle.
std::string attentions_like(const model::ModelConfig& config, ops::AttentionMask mask, double theta) {
  const auto like = layers::attention_sublayer({.heads = 2, .dropout = 0, .mask = mask, .rotary_theta = theta});
  std::string layers;
  for (const layers::SublayerSettings& sublayer : model::make_plan(config, test::masked_lm_head, 2).sublayers) {
    if (sublayer.kind->mixes_tokens() && sublayer.kind->computes_like(*like)) layers += std::to_string(sublayer.block);
  }
  return layers;
}

}  // namespace

TEST_CASE("both generations of ModernBERT's keys make the same model") {
  const json older = {{"global_rope_theta", 80000.0},          {"local_rope_theta", 500.0},
                      {"global_attn_every_n_layers", 2},       {"local_attention", 6},
                      {"position_embedding_type", "absolute"}, {"layer_norm_eps", 1e-12}};
  const json newer = {{"rope_parameters",
                       {{"full_attention", {{"rope_theta", 80000.0}, {"rope_type", "default"}}},
                        {"sliding_attention", {{"rope_theta", 500.0}, {"rope_type", "default"}}}}},
                      {"layer_types", {"full_attention", "sliding_attention", "full_attention", "sliding_attention"}},
                      {"local_attention", 6}};
  for (const json& keys : {older, newer}) {
    const model::ModelConfig config = parsed(keys);
    CHECK(attentions_like(config, ops::AttentionMask::full(), 80000) == "02");
    CHECK(attentions_like(config, ops::AttentionMask::window(3), 500) == "13");
    const json written = json::parse(model::hf_config_text(config, test::masked_lm_head));
    CHECK(written["global_rope_theta"] == 80000.0);
    CHECK(written["rope_parameters"]["sliding_attention"]["rope_theta"] == 500.0);
    CHECK(written["layer_types"] == newer["layer_types"]);
    CHECK(written["global_attn_every_n_layers"] == 2);
    CHECK(written["norm_eps"] == 1e-5);
    CHECK(written["architectures"][0] == "ModernBertForMaskedLM");
    CHECK(attentions_like(model::parse_hf_config(written.dump(), "x"), ops::AttentionMask::window(3), 500) == "13");
  }
  CHECK(attentions_like(parsed({}), ops::AttentionMask::full(), 160000) == "03");
  CHECK(attentions_like(parsed({}), ops::AttentionMask::window(64), 10000) == "12");
  const json uneven = {{"layer_types", {"sliding_attention", "full_attention", "full_attention", "sliding_attention"}}};
  CHECK(attentions_like(parsed(uneven), ops::AttentionMask::full(), 160000) == "12");
  CHECK(json::parse(model::hf_config_text(parsed(uneven), test::masked_lm_head))["layer_types"] ==
        uneven["layer_types"]);
}

TEST_CASE("what ModernBERT's config.json says twice or cannot mean is named") {
  const auto fails = [](const json& keys, const std::string& text) {
    INFO(keys.dump());
    CHECK_THROWS_WITH(parsed(keys), ContainsSubstring(text));
  };
  fails({{"global_rope_theta", 1e4}, {"rope_parameters", {{"full_attention", {{"rope_theta", 2e4}}}}}},
        "global_rope_theta is 10000 and rope_parameters.full_attention.rope_theta is 20000");
  fails({{"rope_parameters", {{"sliding_attention", {{"rope_type", "yarn"}, {"rope_theta", 1e4}}}}}},
        "rope_parameters.sliding_attention.rope_type is \"yarn\"");
  fails({{"global_attn_every_n_layers", 3},
         {"layer_types", {"full_attention", "full_attention", "sliding_attention", "full_attention"}}},
        "global_attn_every_n_layers is 3, but layer_types names layer 1 \"full_attention\"");
  fails({{"layer_types", {"full_attention"}}}, "layer_types must list");
  fails({{"mlp_dropout", 0.1}}, "mlp_dropout is not 0");
  fails({{"embedding_dropout", 1.5}}, "embedding_dropout is 1.5, but a probability of dropout");
  fails({{"mlp_bias", true}}, "mlp_bias is true, but only false is built in");
  fails({{"hidden_activation", "silu"}}, "hidden_activation is \"silu\"");
  fails({{"classifier_pooling", "last"}}, "classifier_pooling is \"last\"");
  fails({{"initializer_cutoff_factor", 0.4}}, "initializer_cutoff_factor is 0.4, but must be at least 0.5");
  fails({{"decoder_bias", "no"}}, "decoder_bias");
  fails({{"local_attention", -2}}, "local_attention is -2");
  fails({{"local_rope_theta", 0}}, "local_rope_theta must be above 0");
  fails({{"hidden_size", 18}}, "heads have 9 columns");
}

TEST_CASE("ModernBERT's initial values end where Transformers ends them, also without a factor") {
  const auto cutoff = [](const json& keys) {
    for (const core::ParameterSpec& spec : model::model_parameters(parsed(keys), test::masked_lm_head, 5)) {
      if (spec.name == "model.layers.1.attn.Wo.weight") return spec.cutoff;
    }
    return -1.0;
  };
  CHECK(cutoff(json::object()) == 2);
  CHECK(cutoff({{"initializer_cutoff_factor", 2.5}}) == 2.5);
  CHECK(cutoff({{"initializer_cutoff_factor", nullptr}}) == 3);
}

TEST_CASE("a plan of ModernBERT has no positions and no biases but the head's, and reads what its pooling says") {
  const model::ModelConfig config = parsed({{"classifier_pooling", "mean"}});
  const model::ModelPlan plan = model::make_plan(config, test::classification_head, 5);
  CHECK(layers::embeddings_settings(*plan.input).positions == 0);
  CHECK(plan.selects_from == plan.sublayer_count());
  CHECK(plan.head.pooling == ops::Pooling::mean);
  CHECK_FALSE(plan.hands_on_sum(0));
  CHECK(plan.hands_on_sum(1));
  CHECK(plan.sublayers.back().norm == "model.final_norm");
  CHECK(plan.sublayers[1].norm == "model.layers.1.attn_norm");
  std::string biases;
  for (const core::ParameterSpec& spec : model::model_parameters(config, test::classification_head, 5)) {
    if (spec.name.ends_with(".bias")) biases += spec.name + ' ';
  }
  CHECK(biases == "classifier.bias ");
  const model::ModelPlan words = model::make_plan(config, test::token_head, 5);
  CHECK_FALSE(words.head.pooling);
  CHECK(words.head.dense_of_tokens);
  CHECK(words.selects_from == words.sublayer_count() - 2);
  CHECK_FALSE(model::make_plan(parsed({}), test::classification_head, 5).head.pooling);
}

TEST_CASE("ModernBERT's initial values are Megatron's, cut off at two deviations") {
  const model::ModelConfig config = parsed({{"hidden_size", 64}, {"intermediate_size", 96}});
  core::ParameterStore store(model::model_parameters(config, test::classification_head, 5),
                             core::ParameterStore::Arenas::values);
  model::initialize_parameters(store, config, 3);
  for (int i = 0; i < static_cast<int>(store.slices().size()); ++i) {
    const core::ParameterSlice& slice = store.slices()[static_cast<std::size_t>(i)];
    if (slice.initial != core::InitialValues::normal) continue;
    INFO(slice.name);
    double deviation = 0.02;
    if (slice.name.ends_with(".Wo.weight") || slice.name == "head.dense.weight") deviation = 0.02 / std::sqrt(8.0);
    if (slice.name == "classifier.weight") deviation = 0.125;
    double squares = 0, largest = 0;
    for (const float x : test::copy_of(store.value(i).data, slice.size)) {
      squares += double{x} * x;
      largest = std::max(largest, std::abs(double{x}));
    }
    CHECK(largest <= 2 * deviation * (1 + 1e-6));
    // A normal distribution cut off at two deviations has 0.88 of the deviation; its estimate has a standard error of
    // 1/√(2n), below 0.04 for the classifier's 320 values.
    CHECK(std::abs(std::sqrt(squares / static_cast<double>(slice.size)) / deviation - 0.88) < 0.16);
  }
}
