// ELECTRA (Clark et al., "ELECTRA: pre-training text encoders as discriminators rather than generators", 2020):
// config.json, plan and weight names of Transformers' ElectraForSequenceClassification and its relatives. It is BERT's
// encoder without a pooler; its sequence head has a GELU where BERT's pooler has a tanh, and drops its input too. The
// small model's embeddings have fewer columns than its encoder, the generators' more: a linear layer is between.
#include <nlohmann/json.hpp>

#include "bert_hpc/layers/projected_embeddings.hpp"
#include "family.hpp"

namespace bert_hpc::model {
namespace {

// ElectraConfig's defaults where they are not BERT's; sizes are those of the small model.
constexpr std::int64_t usual_hidden = 256, usual_heads = 4, usual_intermediate = 1024, usual_embeddings = 128;

void read(ConfigReader& reader, ModelConfig& config) {
  config.hidden_size = usual_hidden;
  config.num_attention_heads = usual_heads;
  config.intermediate_size = usual_intermediate;
  read_bert_keys(reader, config);
  config.embedding_size = usual_embeddings;
  const nlohmann::json* const size = reader.find("embedding_size");
  if (size != nullptr && size->is_null()) {
    config.embedding_size = 0;  // that of the encoder
  } else {
    reader.integer("embedding_size", config.embedding_size);
  }
}

std::int64_t embedding_size(const ModelConfig& config) {
  return config.embedding_size > 0 ? config.embedding_size : config.hidden_size;
}

void write(const ModelConfig& config, nlohmann::json& root) {
  write_bert_keys(config, root);
  root["embedding_size"] = embedding_size(config);
}

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  ModelPlan plan = bert_encoder_plan("electra.", config, kind, outputs);
  if (const std::int64_t columns = embedding_size(config); columns != config.hidden_size) {
    layers::EmbeddingsSettings embeddings = layers::embeddings_settings(*plan.input);
    embeddings.hidden = columns;
    plan.input = layers::projected_embeddings(std::move(embeddings), "electra.embeddings_project", config.hidden_size);
    plan.head.decoder_columns = columns;
  }
  const bool masked = kind.predicts_tokens;
  plan.head.dense = masked ? "generator_predictions.dense" : "classifier.dense";
  plan.head.norm = "generator_predictions.LayerNorm";
  plan.head.bias = "generator_lm_head.bias";
  if (!masked && !kind.is_token_head) {
    plan.head.classifier = "classifier.out_proj";
    plan.head.activation = ops::Activation::gelu;
    plan.head.input_dropout = plan.head.classifier_dropout;
  }
  return plan;
}

}  // namespace

extern const Family electra = {
    .model_type = "electra",
    .title = "ELECTRA",
    .class_prefix = "Electra",
    .projects_embeddings = true,
    .of_scratch = R"({"embedding_size": null})",
    .names = {.base = "electra.",
              .base_parts = {"embeddings.", "embeddings_project.", "encoder."},
              .word_embeddings = "electra.embeddings.word_embeddings.weight",
              .decoder = "generator_lm_head.weight",
              .decoder_bias = "",
              .prediction_bias = "generator_lm_head.bias",
              .prediction_transform = "generator_predictions.dense.weight",
              .sequence_head = {"classifier."},
              .masked_lm_head = {"generator_"}},
    .read = read,
    .write = write,
    .plan = plan,
    .check = check_encoder,
    .numbers = encoder_numbers,
};

}  // namespace bert_hpc::model
