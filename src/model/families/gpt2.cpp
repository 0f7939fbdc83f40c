// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019): config.json, plan and weight
// names of Transformers' GPT2LMHeadModel and its relatives. A decoder: causal attention, layer norms
// before the sublayers and a final one, GELU with tanh, learned positions, no token types. Its head of sequences reads
// the last token and is one product without bias. Files store matrices transposed, and query, key and value as one
// tensor.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/core/model_limits.hpp"
#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::int64_t usual_vocabulary = 50257, usual_positions = 1024;
constexpr double usual_epsilon = 1e-5;

void read(ConfigReader& reader, ModelConfig& config) {
  EncoderSettings& own = encoder_settings(config);
  config.vocab_size = usual_vocabulary;
  config.max_position_embeddings = usual_positions;
  config.type_vocab_size = 0;
  config.pad_token_id = no_token;
  own.layer_norm_eps = usual_epsilon;
  own.hidden_act = gelu_with_tanh.front();
  reader.integer("vocab_size", config.vocab_size);
  reader.integer("n_embd", "hidden_size", config.hidden_size);
  reader.integer("n_layer", "num_hidden_layers", config.num_hidden_layers);
  reader.integer("n_head", "num_attention_heads", config.num_attention_heads);
  reader.integer("n_positions", "max_position_embeddings", config.max_position_embeddings);
  std::optional<std::int64_t> inner;
  reader.integer("n_inner", inner);
  const std::int64_t bounded = std::clamp<std::int64_t>(config.hidden_size, 0, core::largest_size);  // checked later
  config.intermediate_size = inner.value_or(4 * bounded);
  reader.number("resid_pdrop", own.hidden_dropout_prob);
  own.embedding_dropout = own.hidden_dropout_prob;
  reader.number("embd_pdrop", own.embedding_dropout);
  reader.number("attn_pdrop", own.attention_probs_dropout_prob);
  reader.number("classifier_dropout", own.classifier_dropout);
  reader.number("layer_norm_epsilon", own.layer_norm_eps);
  reader.number("initializer_range", config.initializer_range);
  reader.text("activation_function", own.hidden_act);
  reader.must_be("scale_attn_weights", true, "scores are divided by the root of the head's size.");
  reader.must_be("scale_attn_by_inverse_layer_idx", false, "every layer scales its scores alike.");
  reader.must_be("add_cross_attention", false, "there is no second sequence to attend to.");
}

void write(const ModelConfig& config, nlohmann::json& root) {
  const EncoderSettings& own = encoder_settings(config);
  root["add_cross_attention"] = false;
  root["activation_function"] = own.hidden_act;
  root["attn_pdrop"] = own.attention_probs_dropout_prob;
  if (own.classifier_dropout) root["classifier_dropout"] = *own.classifier_dropout;
  root["embd_pdrop"] = own.embedding_dropout.value_or(own.hidden_dropout_prob);
  root["initializer_range"] = config.initializer_range;
  root["layer_norm_epsilon"] = own.layer_norm_eps;
  root["n_embd"] = config.hidden_size;
  root["n_head"] = config.num_attention_heads;
  root["n_inner"] = config.intermediate_size;
  root["n_layer"] = config.num_hidden_layers;
  root["n_positions"] = config.max_position_embeddings;
  root["resid_pdrop"] = own.hidden_dropout_prob;
  root["reorder_and_upcast_attn"] = false;
  root["scale_attn_by_inverse_layer_idx"] = false;
  root["scale_attn_weights"] = true;
  root["vocab_size"] = config.vocab_size;
}

/// Tensors that hold a block's matrices; `block`: "transformer.h.3.".
void add_weights(const std::string& block, const BlockNames& names, std::int64_t hidden, WeightTable& table) {
  for (const char* const end : {".weight", ".bias"}) {
    add_joined(table, block, "attn.c_attn", {names.query, names.key, names.value}, hidden, end, true);
  }
  for (const std::string& name : {names.attention_output, names.intermediate, names.output}) {
    const std::string weight = block + name + ".weight";
    table.add(weight, {.tensor = weight, .transposed = true});
  }
}

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  const EncoderSettings& own = encoder_settings(config);
  const std::string base = "transformer.";
  const BlockNames names = {
      .block = base + "h.",
      .query = "attn.c_attn.query",
      .key = "attn.c_attn.key",
      .value = "attn.c_attn.value",
      .attention_output = "attn.c_proj",
      .attention_norm = "ln_2",
      .intermediate = "mlp.c_fc",
      .output = "mlp.c_proj",
      .norm = "ln_1",
      .mask = ops::AttentionMask::causal(),
      .activation = has_gelu_with_tanh(own.hidden_act) ? ops::Activation::gelu_tanh : ops::Activation::gelu};
  ModelPlan plan = encoder_plan(config, own, names, kind, outputs);
  layers::change_embeddings(plan.input, [&](layers::EmbeddingsSettings& embeddings) {
    embeddings.word = base + "wte";
    embeddings.position = base + "wpe";
    embeddings.norm = names.prefix(0) + names.norm;
    embeddings.padding_row = -1;
    embeddings.sum_out = true;
  });
  put_norms_before(plan, names, base + "ln_f");
  for (std::int64_t block = 0; block < config.num_hidden_layers; ++block) {
    add_weights(names.prefix(block), names, config.hidden_size, plan.weights);
  }
  plan.head.padding_row = -1;
  if (kind.outputs_embeddings) return plan;
  if (kind.predicts_tokens) {
    plan.head.dense = plan.head.bias = "";
  } else if (!kind.is_token_head) {
    plan.head.token = layers::SequenceToken::last;
    plan.head.dense = "";
    plan.head.classifier = "score";
    plan.head.classifier_bias = false;
    plan.head.classifier_dropout = 0;
  } else if (!kind.reads_all_tokens) {
    constexpr double usual_dropout = 0.1;  // of GPT2ForTokenClassification, whatever the other dropouts
    plan.head.classifier_dropout = static_cast<float>(own.classifier_dropout.value_or(usual_dropout));
  }
  return plan;
}

void check(const ModelConfig& config, core::ProblemList& problems) {
  const EncoderSettings& own = encoder_settings(config);
  check_encoder_numbers(own, problems);
  if (!has_gelu_with_tanh(own.hidden_act) && own.hidden_act != "gelu") {
    problems.add("activation_function is " + core::in_quotes(own.hidden_act) +
                 ", but only \"gelu_new\" (with tanh, also as \"gelu_pytorch_tanh\" and \"gelu_fast\") and \"gelu\" "
                 "(exact) are built in.");
  }
}

}  // namespace

extern const Family gpt2 = {
    .model_type = "gpt2",
    .title = "GPT-2",
    .class_prefix = "GPT2",
    .token_types = false,
    .causal = true,
    .names = {.base = "transformer.",
              .base_parts = {"wte.", "wpe.", "h.", "ln_f."},
              .word_embeddings = "transformer.wte.weight",
              .decoder = "lm_head.weight",
              .decoder_bias = "",
              .prediction_bias = "",
              .prediction_transform = "",
              .sequence_head = {"score.", "classifier."},
              .masked_lm_head = {},
              .buffers = {".attn.bias", ".attn.masked_bias"}},
    .read = read,
    .write = write,
    .plan = plan,
    .check = check,
    .numbers = encoder_numbers,
};

}  // namespace bert_hpc::model
