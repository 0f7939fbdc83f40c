// MPNet (Song et al., "MPNet: masked and permuted pre-training for language understanding", 2020), the base of
// all-mpnet-base-v2: config.json, plan and weight names of Transformers' MPNetForSequenceClassification and its
// relatives. It is RoBERTa's encoder without token types, with one position bias that all blocks add to their scores.
#include <nlohmann/json.hpp>

#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::int64_t usual_vocabulary = 30527, padding = 1;
constexpr std::int32_t buckets = 32, max_distance = 128;  // Transformers computes these, whatever config.json says

/// Rows of the position table before that of the first token. config.json counts them as positions, ModelConfig not.
constexpr std::int64_t rows_before_positions = padding + 1;

void read(ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = usual_vocabulary;
  config.type_vocab_size = 0;
  read_bert_keys(reader, config);
  config.type_vocab_size = 0;
  encoder_settings(config).classifier_dropout.reset();  // its heads have that of hidden states
  config.max_position_embeddings -= rows_before_positions;
  config.pad_token_id = padding;
  reader.must_be("relative_attention_num_buckets", std::int64_t{buckets}, "distances have 32 buckets.");
}

void write(const ModelConfig& config, nlohmann::json& root) {
  write_encoder_keys(config, root);
  root.erase("classifier_dropout");
  root.erase("type_vocab_size");
  root["max_position_embeddings"] = config.max_position_embeddings + rows_before_positions;
  root["relative_attention_num_buckets"] = buckets;
}

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  const std::string base = "mpnet.";
  BlockNames names = {.block = base + "encoder.layer.",
                      .query = "attention.attn.q",
                      .key = "attention.attn.k",
                      .value = "attention.attn.v",
                      .attention_output = "attention.attn.o",
                      .attention_norm = "attention.LayerNorm",
                      .intermediate = "intermediate.dense",
                      .output = "output.dense",
                      .norm = "output.LayerNorm"};
  const std::string bias = "relative_attention_bias.weight", shared = base + "encoder." + bias;
  names.change_attention = [&](std::int64_t block, layers::AttentionSettings& attention) {
    attention.position_bias = {.name = shared,
                               .in_block = block == 0 ? shared : names.prefix(block) + "attention.attn." + bias,
                               .buckets = buckets,
                               .max_distance = max_distance};
  };
  ModelPlan plan = encoder_plan(config, encoder_settings(config), names, kind, outputs);
  plan.weights.add(shared, {.tensor = shared, .transposed = true});
  layers::change_embeddings(plan.input, [&base](layers::EmbeddingsSettings& embeddings) {
    embeddings.word = base + "embeddings.word_embeddings";
    embeddings.position = base + "embeddings.position_embeddings";
    embeddings.norm = base + "embeddings.LayerNorm";
    embeddings.first_position = rows_before_positions;
  });
  name_roberta_head(plan, kind);
  return plan;
}

void check(const ModelConfig& config, core::ProblemList& problems) {
  check_encoder(config, problems);
  if (config.pad_token_id == padding) return;
  problems.add(
      "pad_token_id is " + std::to_string(config.pad_token_id) +
      ", but MPNet's positions begin behind that of token 1: use a tokenizer whose padding token has the id 1, "
      "such as that of all-mpnet-base-v2.");
}

std::span<const OwnNumber> numbers() {
  return encoder_numbers().first(encoder_numbers().size() - 1);  // without classifier_dropout
}

}  // namespace

extern const Family mpnet = {
    .model_type = "mpnet",
    .title = "MPNet",
    .class_prefix = "MPNet",
    .token_types = false,
    .positions_after_padding = true,
    .of_scratch = R"({"layer_norm_eps": 1e-5, "max_position_embeddings": 514})",
    .names = {.base = "mpnet.",
              .base_parts = {"embeddings.", "encoder.", "pooler."},
              .word_embeddings = "mpnet.embeddings.word_embeddings.weight",
              .decoder = "lm_head.decoder.weight",
              .decoder_bias = "lm_head.decoder.bias",
              .prediction_bias = "lm_head.bias",
              .prediction_transform = "lm_head.dense.weight",
              .sequence_head = {"classifier."},
              .masked_lm_head = {"lm_head."}},
    .read = read,
    .write = write,
    .plan = plan,
    .check = check,
    .numbers = numbers,
};

}  // namespace bert_hpc::model
