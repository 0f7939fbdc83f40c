// Nomic BERT (Nussbaum et al., "Nomic Embed: training a reproducible long context text embedder", 2024): config.json,
// plan and weight names of Transformers' NomicBertForMaskedLM and its relatives. It is BERT's encoder with rotary
// positions, feed-forward layers with a gate (SwiGLU), and products without biases. Files have keys of two kinds: those
// of its first, remote code (n_embd, …), and Transformers' own. Tensors have the names of the first.
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json_strict.hpp"
#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::int64_t usual_vocabulary = 30528, usual_positions = 2048;
constexpr double usual_theta = 1000;

void read(ConfigReader& reader, ModelConfig& config) {
  EncoderSettings& own = encoder_settings(config);
  config.vocab_size = usual_vocabulary;
  config.max_position_embeddings = usual_positions;
  own.hidden_dropout_prob = own.attention_probs_dropout_prob = 0;
  own.hidden_act = "silu";
  reader.integer("vocab_size", config.vocab_size);
  reader.integer("hidden_size", "n_embd", config.hidden_size);
  reader.integer("num_hidden_layers", "n_layer", config.num_hidden_layers);
  reader.integer("num_attention_heads", "n_head", config.num_attention_heads);
  reader.integer("intermediate_size", "n_inner", config.intermediate_size);
  reader.integer("max_position_embeddings", "n_positions", config.max_position_embeddings);
  reader.integer("type_vocab_size", config.type_vocab_size);
  for (const char* const key : {"resid_pdrop", "hidden_dropout_prob"}) reader.number(key, own.hidden_dropout_prob);
  reader.number("embd_pdrop", own.embedding_dropout);
  for (const char* const key : {"attn_pdrop", "attention_probs_dropout_prob"}) {
    reader.number(key, own.attention_probs_dropout_prob);
  }
  reader.number("classifier_dropout", own.classifier_dropout);
  for (const char* const key : {"layer_norm_epsilon", "layer_norm_eps"}) reader.number(key, own.layer_norm_eps);
  reader.number("initializer_range", config.initializer_range);
  reader.text("hidden_act", own.hidden_act);
  reader.must_be("activation_function", "swiglu", "feed-forward layers have a gate with SiLU.");
  own.rotary_theta = usual_theta;
  read_rotary_theta(reader, "rotary_emb_base", "", own.rotary_theta);
  for (const char* const key : {"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"}) {
    reader.must_be(key, false, "the encoder's products have no biases.");
  }
  reader.must_be("prenorm", false, "layer norms follow the layers.");
  reader.must_be("use_rms_norm", false, "layer norms subtract the mean.");
  reader.must_be("parallel_block", false, "attention comes before the feed-forward layer.");
  reader.must_be("causal", false, "a token attends to all others.");
  reader.must_be("rotary_emb_interleaved", false, "halves of a head's columns are rotated.");
  double fraction = 1;
  reader.number("rotary_emb_fraction", fraction);
  if (fraction != 1) reader.problems().add("rotary_emb_fraction is not 1, but whole heads are rotated.");
  for (const char* const key : {"rotary_emb_scale_base", "rotary_scaling_factor"}) {
    const nlohmann::json* const found = reader.find(key);
    if (found == nullptr || found->is_null()) continue;
    reader.problems().add(std::string(key) + " is set, but scaled angles are not built in.");
  }
}

void write(const ModelConfig& config, nlohmann::json& root) {
  write_encoder_keys(config, root);
  root["rope_parameters"] = {{"rope_theta", encoder_settings(config).rotary_theta}, {"rope_type", "default"}};
}

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  const EncoderSettings& own = encoder_settings(config);
  const std::string base = "nomic_bert.";
  const BlockNames names = {.block = base + "encoder.layers.",
                            .query = "attn.Wqkv.query",
                            .key = "attn.Wqkv.key",
                            .value = "attn.Wqkv.value",
                            .attention_output = "attn.out_proj",
                            .attention_norm = "norm1",
                            .intermediate = "mlp.fc12",
                            .output = "mlp.fc2",
                            .norm = "norm2",
                            .activation = ops::Activation::silu,
                            .gate = "mlp.fc11",
                            .biases = false};
  ModelPlan plan = encoder_plan(config, own, names, kind, outputs);
  layers::change_embeddings(plan.input, [&base](layers::EmbeddingsSettings& embeddings) {
    embeddings.word = base + "embeddings.word_embeddings";
    embeddings.type = base + "embeddings.token_type_embeddings";
    embeddings.norm = base + "emb_ln";
    embeddings.positions = 0;
  });
  for (std::int64_t block = 0; block < config.num_hidden_layers; ++block) {
    add_joined(plan.weights, names.prefix(block), "attn.Wqkv", {names.query, names.key, names.value},
               config.hidden_size);
  }
  const bool masked = kind.predicts_tokens;
  plan.head.dense = masked ? "cls.predictions.transform.dense" : base + "pooler.dense";
  plan.head.norm = "cls.predictions.transform.layer_norm";
  plan.head.bias = "cls.predictions.bias";
  if (masked) plan.head.activation = ops::Activation::silu;
  return plan;
}

void check(const ModelConfig& config, core::ProblemList& problems) {
  const EncoderSettings& own = encoder_settings(config);
  check_encoder_numbers(own, problems);
  if (own.hidden_act != "silu") {
    problems.add("hidden_act is " + core::in_quotes(own.hidden_act) + ", but only \"silu\" is built in.");
  }
  if (!(own.rotary_theta > 0)) problems.add("rope_theta must be above 0.");
  check_rotated_heads(config, problems);
}

}  // namespace

extern const Family nomic_bert = {
    .model_type = "nomic_bert",
    .title = "Nomic BERT",
    .class_prefix = "NomicBert",
    .names = {.base = "nomic_bert.",
              .base_parts = {"embeddings.", "encoder.", "emb_ln.", "pooler."},
              .word_embeddings = "nomic_bert.embeddings.word_embeddings.weight",
              .decoder = "cls.predictions.decoder.weight",
              .decoder_bias = "cls.predictions.decoder.bias",
              .prediction_bias = "cls.predictions.bias",
              .prediction_transform = "cls.predictions.transform.dense.weight",
              .sequence_head = {"classifier.", "nomic_bert.pooler."},
              .masked_lm_head = {"cls."}},
    .read = read,
    .write = write,
    .plan = plan,
    .check = check,
    .numbers = encoder_numbers,
};

}  // namespace bert_hpc::model
