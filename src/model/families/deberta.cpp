// DeBERTa-v3 (He, Gao and Chen, "DeBERTaV3: improving DeBERTa using ELECTRA-style pre-training with
// gradient-disentangled embedding sharing", 2023) and mDeBERTa: config.json, plan and weight names of Transformers'
// DebertaV2ForSequenceClassification and its relatives. It is BERT's encoder without positions and token types in its
// embeddings; attention has keys and queries of distances, made of one table of all blocks
// (ops/relative_positions.hpp).
#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::int64_t usual_vocabulary = 128100, usual_hidden = 1536, usual_blocks = 24, usual_heads = 24,
                       usual_intermediate = 6144;
constexpr double usual_epsilon = 1e-7;

struct DebertaSettings {
  EncoderSettings encoder{};
  double pooler_dropout = 0;
  std::int64_t position_buckets = 0;
  bool legacy = true;                        ///< names of the head of masked tokens
  std::int64_t max_relative_positions = -1;  ///< below 1: max_position_embeddings
};

const DebertaSettings& own_of(const ModelConfig& config) {
  return config.own.as<DebertaSettings>();
}

/// From this distance on, keys and queries of distances are those of the last bucket.
std::int64_t max_distance_of(const ModelConfig& config) {
  const std::int64_t stated = own_of(config).max_relative_positions;
  return stated >= 1 ? stated : config.max_position_embeddings;
}

/// pos_att_type: "p2c|c2p", or a list. Transformers reads strings without blanks and in small letters.
void read_attention_terms(ConfigReader& reader) {
  const nlohmann::json* const found = reader.find("pos_att_type");
  std::string terms = "|";
  const auto add = [&terms](const nlohmann::json& text) {
    if (!text.is_string()) return;
    for (const char c : text.get<std::string>() + '|') {
      if (c != ' ') terms += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  };
  if (found != nullptr && found->is_array()) std::for_each(found->begin(), found->end(), add);
  if (found != nullptr) add(*found);
  const auto has = [&terms](const char* term) { return terms.find(term) != std::string::npos; };
  if (has("|c2p|") && has("|p2c|")) return;
  reader.must_state("pos_att_type", "p2c|c2p", "other terms of scores would give other results.");
}

void read(ConfigReader& reader, ModelConfig& config) {
  auto& own = config.own.change<DebertaSettings>();
  config.vocab_size = usual_vocabulary;
  config.hidden_size = usual_hidden;
  config.num_hidden_layers = usual_blocks;
  config.num_attention_heads = usual_heads;
  config.intermediate_size = usual_intermediate;
  config.type_vocab_size = 0;
  own.encoder.layer_norm_eps = usual_epsilon;
  read_encoder_keys(reader, config, own.encoder);
  reader.number("cls_dropout", own.encoder.classifier_dropout);
  reader.number("pooler_dropout", own.pooler_dropout);
  reader.integer("position_buckets", own.position_buckets);
  reader.integer("max_relative_positions", own.max_relative_positions);
  reader.must_state("relative_attention", true, "positions are nowhere else.");
  reader.must_state("position_biased_input", false, "embeddings have no positions.");
  reader.must_state("share_att_key", true, "distances have the keys' and queries' layers.");
  reader.must_state("norm_rel_ebd", "layer_norm", "embeddings of distances are normalized.");
  read_attention_terms(reader);
  reader.must_be("conv_kernel_size", std::int64_t{0}, "the convolution of deberta-v2-xlarge is missing.");
  reader.must_be("embedding_size", config.hidden_size, "embeddings have the encoder's columns.");
  reader.must_be("pooler_hidden_size", config.hidden_size, "the pooler has the encoder's columns.");
  reader.must_be("pooler_hidden_act", "gelu", "another function would give other results.");
  reader.boolean("legacy", own.legacy);
  if (config.num_attention_heads < 1) return;
  reader.must_be("attention_head_size", config.hidden_size / config.num_attention_heads, "heads share the columns.");
}

void write(const ModelConfig& config, nlohmann::json& root) {
  const DebertaSettings& own = own_of(config);
  write_encoder_keys(config, own.encoder, root);
  if (own.encoder.classifier_dropout) root["cls_dropout"] = *own.encoder.classifier_dropout;
  root["legacy"] = own.legacy;
  root["max_relative_positions"] = own.max_relative_positions;
  root["norm_rel_ebd"] = "layer_norm";
  root["pooler_dropout"] = own.pooler_dropout;
  root["pooler_hidden_act"] = "gelu";
  root["pooler_hidden_size"] = config.hidden_size;
  root["pos_att_type"] = {"p2c", "c2p"};
  root["position_biased_input"] = false;
  root["position_buckets"] = own.position_buckets;
  root["relative_attention"] = true;
  root["share_att_key"] = true;
}

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  const DebertaSettings& own = own_of(config);
  const std::string base = "deberta.", table = base + "encoder.rel_embeddings.weight",
                    norm = base + "encoder.LayerNorm";
  BlockNames names = {.block = base + "encoder.layer.",
                      .query = "attention.self.query_proj",
                      .key = "attention.self.key_proj",
                      .value = "attention.self.value_proj",
                      .attention_output = "attention.output.dense",
                      .attention_norm = "attention.output.LayerNorm",
                      .intermediate = "intermediate.dense",
                      .output = "output.dense",
                      .norm = "output.LayerNorm"};
  names.change_attention = [&](std::int64_t block, layers::AttentionSettings& attention) {
    const std::string prefix = names.prefix(block) + "attention.self.";
    attention.relative_positions = {.table = table,
                                    .norm = norm,
                                    .table_in_block = block == 0 ? table : prefix + "rel_embeddings.weight",
                                    .norm_in_block = block == 0 ? norm : prefix + "rel_norm",
                                    .span = static_cast<std::int32_t>(own.position_buckets),
                                    .max_distance = static_cast<std::int32_t>(max_distance_of(config))};
  };
  ModelPlan plan = encoder_plan(config, own.encoder, names, kind, outputs);
  layers::change_embeddings(plan.input, [&base](layers::EmbeddingsSettings& embeddings) {
    embeddings.word = base + "embeddings.word_embeddings";
    embeddings.positions = 0;
    embeddings.norm = base + "embeddings.LayerNorm";
  });
  layers::HeadSettings& head = plan.head;
  const std::string transform = own.legacy ? "cls.predictions.transform." : "lm_predictions.lm_head.";
  head.dense = kind.predicts_tokens ? transform + "dense" : "pooler.dense";
  head.norm = transform + "LayerNorm";
  head.bias = own.legacy ? "cls.predictions.bias" : "lm_predictions.lm_head.bias";
  if (kind.predicts_tokens || kind.is_token_head) return plan;
  head.activation = ops::Activation::gelu;
  head.input_dropout = static_cast<float>(own.pooler_dropout);
  return plan;
}

void check(const ModelConfig& config, core::ProblemList& problems) {
  const DebertaSettings& own = own_of(config);
  check_encoder(config, own.encoder, problems);
  check_probability("pooler_dropout", own.pooler_dropout, problems);
  constexpr std::int64_t least = 4;
  const std::int64_t distance = max_distance_of(config);
  if (own.position_buckets < least || own.position_buckets > core::largest_size || own.position_buckets % 2 != 0) {
    problems.add("position_buckets is " + std::to_string(own.position_buckets) + ", but must be an even number from " +
                 std::to_string(least) + " to " + std::to_string(core::largest_size) +
                 " and be stated: distances have that many buckets on each side.");
  } else if (distance - 1 <= own.position_buckets / 2 || distance > core::largest_size) {
    problems.add((own.max_relative_positions >= 1 ? "max_relative_positions" : "max_position_embeddings") +
                 (" is " + std::to_string(distance)) + ", but must be from " +
                 std::to_string(own.position_buckets / 2 + 2) + " to " + std::to_string(core::largest_size) +
                 " with position_buckets = " + std::to_string(own.position_buckets) +
                 ": the buckets of the farther distances grow up to it.");
  }
}

std::span<const OwnNumber> numbers() {
  static constexpr std::array own = {
      encoder_number<DebertaSettings, &EncoderSettings::hidden_dropout_prob>("hidden_dropout_prob", is_probability),
      encoder_number<DebertaSettings, &EncoderSettings::attention_probs_dropout_prob>("attention_probs_dropout_prob",
                                                                                      is_probability),
      encoder_number<DebertaSettings, &EncoderSettings::layer_norm_eps>("layer_norm_eps", is_epsilon),
      OwnNumber{.key = "classifier_dropout",
                .limits = is_probability,
                .get = [](const ModelConfig& config) { return own_of(config).encoder.classifier_dropout; },
                .set =
                    [](ModelConfig& config, double value) {
                      EncoderSettings& encoder = config.own.change<DebertaSettings>().encoder;
                      encoder.classifier_dropout = value;
                      encoder.span_dropout = value;
                    }},
  };
  return own;
}

}  // namespace

extern const Family deberta = {
    .model_type = "deberta-v2",
    .title = "DeBERTa-v3",
    .class_prefix = "DebertaV2",
    .token_types = false,
    .of_scratch = R"({"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
                      "intermediate_size": 3072, "relative_attention": true, "position_buckets": 256,
                      "norm_rel_ebd": "layer_norm", "share_att_key": true, "pos_att_type": "p2c|c2p",
                      "position_biased_input": false})",
    .names = {.base = "deberta.",
              .base_parts = {"embeddings.", "encoder."},
              .word_embeddings = "deberta.embeddings.word_embeddings.weight",
              .decoder = "cls.predictions.decoder.weight",
              .decoder_bias = "cls.predictions.decoder.bias",
              .prediction_bias = "cls.predictions.bias",
              .prediction_transform = "cls.predictions.transform.dense.weight",
              .sequence_head = {"classifier.", "pooler."},
              .masked_lm_head = {"cls.", "lm_predictions."}},
    .read = read,
    .write = write,
    .plan = plan,
    .check = check,
    .numbers = numbers,
};

}  // namespace bert_hpc::model
