// RoBERTa (Liu et al., "RoBERTa: a robustly optimized BERT pretraining approach", 2019), CamemBERT (Martin et al. 2020)
// and XLM-RoBERTa (Conneau et al. 2020), which differ in their vocabularies: config.json, plan and weight names of
// Transformers' RobertaForSequenceClassification and its relatives. It is BERT's encoder whose positions count
// from the row after padding's in their table; its sequence head drops its input too.
#include <nlohmann/json.hpp>
#include <utility>

#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::int64_t usual_vocabulary = 50265, usual_padding = 1;

/// Rows of the position table before that of the first token. config.json counts them as positions, ModelConfig not.
std::int64_t rows_before_positions(const ModelConfig& config) {
  return config.pad_token_id + 1;
}

/// CamemBERT and XLM-RoBERTa: their usual vocabulary size is BERT's.
void read(ConfigReader& reader, ModelConfig& config) {
  config.pad_token_id = usual_padding;
  reader.integer("pad_token_id", config.pad_token_id);
  read_bert_keys(reader, config);
  config.max_position_embeddings -= rows_before_positions(config);
}

void read_roberta(ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = usual_vocabulary;
  read(reader, config);
}

void write(const ModelConfig& config, nlohmann::json& root) {
  write_bert_keys(config, root);
  root["max_position_embeddings"] = config.max_position_embeddings + rows_before_positions(config);
}

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  ModelPlan plan = bert_encoder_plan("roberta.", config, kind, outputs);
  layers::change_embeddings(plan.input, [&config](layers::EmbeddingsSettings& embeddings) {
    embeddings.first_position = rows_before_positions(config);
  });
  name_roberta_head(plan, kind);
  return plan;
}

Family family(std::string model_type, std::string title, std::string class_prefix,
              void (*reads)(ConfigReader& reader, ModelConfig& config)) {
  return {.model_type = std::move(model_type),
          .title = std::move(title),
          .class_prefix = std::move(class_prefix),
          .positions_after_padding = true,
          .names = {.base = "roberta.",
                    .base_parts = {"embeddings.", "encoder.", "pooler."},
                    .word_embeddings = "roberta.embeddings.word_embeddings.weight",
                    .decoder = "lm_head.decoder.weight",
                    .decoder_bias = "lm_head.decoder.bias",
                    .prediction_bias = "lm_head.bias",
                    .prediction_transform = "lm_head.dense.weight",
                    .sequence_head = {"classifier."},
                    .masked_lm_head = {"lm_head."}},
          .read = reads,
          .write = write,
          .plan = plan,
          .check = check_encoder,
          .numbers = encoder_numbers};
}

}  // namespace

extern const Family roberta = family("roberta", "RoBERTa", "Roberta", read_roberta);
extern const Family camembert = family("camembert", "CamemBERT", "Camembert", read);
extern const Family xlm_roberta = family("xlm-roberta", "XLM-RoBERTa", "XLMRoberta", read);

}  // namespace bert_hpc::model
