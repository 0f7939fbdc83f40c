// BERT (Devlin et al. 2019): config.json, plan and weight names of Transformers' BertForSequenceClassification and
// BertForMaskedLM.
#include <nlohmann/json.hpp>

#include "family.hpp"

namespace bert_hpc::model {

void read_bert_keys(ConfigReader& reader, ModelConfig& config) {
  EncoderSettings& own = encoder_settings(config);
  read_encoder_keys(reader, config, own);
  reader.number("classifier_dropout", own.classifier_dropout);
  reader.must_be("position_embedding_type", "absolute", "relative positions would give other results.");
  reader.must_be("is_decoder", false, "a decoder's attention is causal.");
  reader.must_be("add_cross_attention", false, "there is no second sequence to attend to.");
}

void write_bert_keys(const ModelConfig& config, nlohmann::json& root) {
  write_encoder_keys(config, root);
  root["add_cross_attention"] = false;
  root["is_decoder"] = false;
  root["position_embedding_type"] = "absolute";
}

ModelPlan bert_encoder_plan(const std::string& base, const ModelConfig& config, const HeadKind& kind,
                            std::int64_t outputs) {
  const BlockNames names = {.block = base + "encoder.layer.",
                            .query = "attention.self.query",
                            .key = "attention.self.key",
                            .value = "attention.self.value",
                            .attention_output = "attention.output.dense",
                            .attention_norm = "attention.output.LayerNorm",
                            .intermediate = "intermediate.dense",
                            .output = "output.dense",
                            .norm = "output.LayerNorm"};
  ModelPlan plan = encoder_plan(config, encoder_settings(config), names, kind, outputs);
  layers::change_embeddings(plan.input, [&base](layers::EmbeddingsSettings& embeddings) {
    embeddings.word = base + "embeddings.word_embeddings";
    embeddings.position = base + "embeddings.position_embeddings";
    embeddings.type = base + "embeddings.token_type_embeddings";
    embeddings.norm = base + "embeddings.LayerNorm";
  });
  return plan;
}

namespace {

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  ModelPlan plan = bert_encoder_plan("bert.", config, kind, outputs);
  const bool masked = kind.predicts_tokens;
  plan.head.dense = masked ? "cls.predictions.transform.dense" : "bert.pooler.dense";
  plan.head.norm = "cls.predictions.transform.LayerNorm";
  plan.head.bias = "cls.predictions.bias";
  name_pretraining_head(plan, "bert.pooler.dense", "cls.seq_relationship", 0);
  return plan;
}

}  // namespace

extern const Family bert = {
    .model_type = "bert",
    .title = "BERT",
    .class_prefix = "Bert",
    .names = {.base = "bert.",
              .base_parts = {"embeddings.", "encoder.", "pooler."},
              .word_embeddings = "bert.embeddings.word_embeddings.weight",
              .decoder = "cls.predictions.decoder.weight",
              .decoder_bias = "cls.predictions.decoder.bias",
              .prediction_bias = "cls.predictions.bias",
              .prediction_transform = "cls.predictions.transform.dense.weight",
              .sequence_head = {"classifier.", "bert.pooler."},
              .masked_lm_head = {"cls."},
              .pretraining_head = {"bert.pooler."}},
    .read = read_bert_keys,
    .write = write_bert_keys,
    .plan = plan,
    .check = check_encoder,
    .numbers = encoder_numbers,
};

}  // namespace bert_hpc::model
