// ESM-2, a language model of proteins (Lin et al., "Evolutionary-scale prediction of atomic-level protein structure
// with a language model", 2023): config.json, plan and weight names of Transformers' EsmForMaskedLM and its relatives.
// It is BERT's encoder with layer norms before the sublayers and a final one, rotary positions, and embeddings in which
// mask tokens are zeros (ops/token_dropout.hpp), without norm or dropout. ESM-1b and ESM-1v, with learned positions,
// and ESMFold are refused. The head of contacts, a regression on attention, is not read.
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bert_hpc/core/json_strict.hpp"
#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::int64_t usual_vocabulary = 33, usual_positions = 1026;
constexpr double usual_theta = 10000;
constexpr float unmasked_share = 1 - 0.15f * 0.8f;  // of tokens, in the pretraining of all ESM models

struct EsmSettings {
  EncoderSettings encoder;
  bool token_dropout = false;
};

const EsmSettings& settings_of(const ModelConfig& config) {
  return config.own.as<EsmSettings>();
}
EsmSettings& settings_of(ModelConfig& config) {
  return config.own.change<EsmSettings>();
}

void read(ConfigReader& reader, ModelConfig& config) {
  EsmSettings& own = settings_of(config);
  config.vocab_size = usual_vocabulary;
  config.max_position_embeddings = usual_positions;
  config.type_vocab_size = 0;
  config.pad_token_id = no_token;
  reader.integer("vocab_size", config.vocab_size);
  reader.integer("hidden_size", config.hidden_size);
  reader.integer("num_hidden_layers", config.num_hidden_layers);
  reader.integer("num_attention_heads", config.num_attention_heads);
  reader.integer("intermediate_size", config.intermediate_size);
  reader.integer("max_position_embeddings", config.max_position_embeddings);
  reader.number("hidden_dropout_prob", own.encoder.hidden_dropout_prob);
  reader.number("attention_probs_dropout_prob", own.encoder.attention_probs_dropout_prob);
  reader.number("layer_norm_eps", own.encoder.layer_norm_eps);
  reader.number("initializer_range", config.initializer_range);
  reader.text("hidden_act", own.encoder.hidden_act);
  own.encoder.rotary_theta = usual_theta;
  read_rotary_theta(reader, "rope_theta", "", own.encoder.rotary_theta);
  reader.boolean("token_dropout", own.token_dropout);
  std::string positions = "absolute";
  reader.text("position_embedding_type", positions);
  if (positions != "rotary") {
    reader.problems().add("position_embedding_type is " + core::in_quotes(positions) +
                          ", as of ESM-1b and ESM-1v, but only \"rotary\" (ESM-2) is built in.");
  }
  reader.must_be("emb_layer_norm_before", false, "embeddings have no layer norm of their own.");
  reader.must_be("is_folding_model", false, "structures are not predicted.");
  reader.must_be("is_decoder", false, "a token attends to all others.");
  reader.must_be("add_cross_attention", false, "there is no second sequence to attend to.");
}

void write(const ModelConfig& config, nlohmann::json& root) {
  const EsmSettings& own = settings_of(config);
  root["attention_probs_dropout_prob"] = own.encoder.attention_probs_dropout_prob;
  root["emb_layer_norm_before"] = false;
  root["hidden_act"] = own.encoder.hidden_act;
  root["hidden_dropout_prob"] = own.encoder.hidden_dropout_prob;
  root["hidden_size"] = config.hidden_size;
  root["initializer_range"] = config.initializer_range;
  root["intermediate_size"] = config.intermediate_size;
  root["is_folding_model"] = false;
  root["layer_norm_eps"] = own.encoder.layer_norm_eps;
  root["max_position_embeddings"] = config.max_position_embeddings;
  root["num_attention_heads"] = config.num_attention_heads;
  root["num_hidden_layers"] = config.num_hidden_layers;
  root["position_embedding_type"] = "rotary";
  root["rope_theta"] = own.encoder.rotary_theta;
  root["token_dropout"] = own.token_dropout;
  root["vocab_size"] = config.vocab_size;
}

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  const EsmSettings& own = settings_of(config);
  const std::string base = "esm.";
  const BlockNames names = {.block = base + "encoder.layer.",
                            .query = "attention.self.query",
                            .key = "attention.self.key",
                            .value = "attention.self.value",
                            .attention_output = "attention.output.dense",
                            .attention_norm = "LayerNorm",
                            .intermediate = "intermediate.dense",
                            .output = "output.dense",
                            .norm = "attention.LayerNorm"};
  ModelPlan plan = encoder_plan(config, own.encoder, names, kind, outputs);
  layers::change_embeddings(plan.input, [&](layers::EmbeddingsSettings& embeddings) {
    embeddings.word = base + "embeddings.word_embeddings";
    embeddings.norm = names.prefix(0) + names.norm;
    embeddings.positions = 0;
    embeddings.hidden_dropout = 0;
    embeddings.sum_out = true;
    if (!own.token_dropout) return;
    embeddings.token_dropout = {static_cast<std::int32_t>(config.mask_token_id.value_or(no_token)), unmasked_share};
  });
  put_norms_before(plan, names, base + "encoder.emb_layer_norm_after");
  name_roberta_head(plan, kind);
  return plan;
}

void check(const ModelConfig& config, core::ProblemList& problems) {
  const EsmSettings& own = settings_of(config);
  check_encoder_numbers(own.encoder, problems);
  if (own.encoder.hidden_act != "gelu") {
    problems.add("hidden_act is " + core::in_quotes(own.encoder.hidden_act) +
                 ", but only \"gelu\" (exact, with the error function) is built in.");
  }
  if (own.token_dropout && !config.mask_token_id) {
    problems.add("token_dropout is true, but mask_token_id is missing: it says which token's embedding is dropped.");
  }
  if (!(own.encoder.rotary_theta > 0)) problems.add("rope_theta must be above 0.");
  check_rotated_heads(config, problems);
}

std::span<const OwnNumber> numbers() {
  static constexpr std::array all = {
      encoder_number<EsmSettings, &EncoderSettings::hidden_dropout_prob>("hidden_dropout_prob", is_probability),
      encoder_number<EsmSettings, &EncoderSettings::attention_probs_dropout_prob>("attention_probs_dropout_prob",
                                                                                  is_probability),
      encoder_number<EsmSettings, &EncoderSettings::layer_norm_eps>("layer_norm_eps", is_epsilon),
  };
  return all;
}

}  // namespace

extern const Family esm = {
    .model_type = "esm",
    .title = "ESM",
    .class_prefix = "Esm",
    .token_types = false,
    .reads_mask_tokens = true,
    .of_scratch = R"({"position_embedding_type": "rotary", "token_dropout": true, "mask_token_id": 32,
                      "pad_token_id": 1, "layer_norm_eps": 1e-5, "hidden_dropout_prob": 0,
                      "attention_probs_dropout_prob": 0})",
    .names = {.base = "esm.",
              .base_parts = {"embeddings.", "encoder.", "pooler.", "contact_head.", "rotary_embeddings."},
              .word_embeddings = "esm.embeddings.word_embeddings.weight",
              .decoder = "lm_head.decoder.weight",
              .decoder_bias = "",
              .prediction_bias = "lm_head.bias",
              .prediction_transform = "lm_head.dense.weight",
              .sequence_head = {"classifier."},
              .masked_lm_head = {"lm_head."},
              // Files of ESM-2 may hold learned positions, which its models do not read.
              .buffers = {"embeddings.position_ids", "embeddings.position_embeddings.weight", "inv_freq"}},
    .read = read,
    .write = write,
    .plan = plan,
    .check = check,
    .numbers = numbers,
};

}  // namespace bert_hpc::model
