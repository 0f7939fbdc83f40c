// DistilBERT (Sanh et al., "DistilBERT, a distilled version of BERT", 2019): config.json, plan and weight names of
// Transformers' DistilBertForSequenceClassification and DistilBertForMaskedLM. It is BERT's encoder without token types
// and without dropout after attention's output; its sequence head has a ReLU where BERT's pooler has a tanh.
#include <nlohmann/json.hpp>

#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr double layer_norm_epsilon = 1e-12, usual_head_dropout = 0.2, usual_span_dropout = 0.1;

void read(ConfigReader& reader, ModelConfig& config) {
  EncoderSettings& own = encoder_settings(config);
  config.num_hidden_layers = 6;
  config.type_vocab_size = 0;
  own.layer_norm_eps = layer_norm_epsilon;
  own.classifier_dropout = usual_head_dropout;
  own.span_dropout = usual_span_dropout;
  reader.integer("vocab_size", config.vocab_size);
  reader.integer("dim", config.hidden_size);
  reader.integer("n_layers", config.num_hidden_layers);
  reader.integer("n_heads", config.num_attention_heads);
  reader.integer("hidden_dim", config.intermediate_size);
  reader.integer("max_position_embeddings", config.max_position_embeddings);
  reader.number("dropout", own.hidden_dropout_prob);
  reader.number("attention_dropout", own.attention_probs_dropout_prob);
  reader.number("seq_classif_dropout", own.classifier_dropout);
  reader.number("qa_dropout", own.span_dropout);
  reader.number("initializer_range", config.initializer_range);
  reader.text("activation", own.hidden_act);
  if (own.hidden_act == "gelu_python") own.hidden_act = "gelu";  // the same function under its older name
  reader.must_be("sinusoidal_pos_embds", false, "positions are a learned table.");
}

void write(const ModelConfig& config, nlohmann::json& root) {
  const EncoderSettings& own = encoder_settings(config);
  root["activation"] = own.hidden_act;
  root["attention_dropout"] = own.attention_probs_dropout_prob;
  root["dim"] = config.hidden_size;
  root["dropout"] = own.hidden_dropout_prob;
  root["hidden_dim"] = config.intermediate_size;
  root["initializer_range"] = config.initializer_range;
  root["max_position_embeddings"] = config.max_position_embeddings;
  root["n_heads"] = config.num_attention_heads;
  root["n_layers"] = config.num_hidden_layers;
  root["qa_dropout"] = own.span_dropout;
  root["seq_classif_dropout"] = own.head_dropout();
  root["sinusoidal_pos_embds"] = false;
  root["tie_weights_"] = true;
  root["vocab_size"] = config.vocab_size;
}

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  const BlockNames names = {.block = "distilbert.transformer.layer.",
                            .query = "attention.q_lin",
                            .key = "attention.k_lin",
                            .value = "attention.v_lin",
                            .attention_output = "attention.out_lin",
                            .attention_norm = "sa_layer_norm",
                            .intermediate = "ffn.lin1",
                            .output = "ffn.lin2",
                            .norm = "output_layer_norm"};
  ModelPlan plan = encoder_plan(config, encoder_settings(config), names, kind, outputs);
  layers::change_embeddings(plan.input, [](layers::EmbeddingsSettings& embeddings) {
    embeddings.word = "distilbert.embeddings.word_embeddings";
    embeddings.position = "distilbert.embeddings.position_embeddings";
    embeddings.norm = "distilbert.embeddings.LayerNorm";
  });
  for (layers::SublayerSettings& sublayer : plan.sublayers) {
    if (sublayer.kind->mixes_tokens()) sublayer.hidden_dropout = 0.0f;
  }
  if (kind.is_token_head && !kind.reads_all_tokens) {
    plan.head.classifier_dropout = static_cast<float>(encoder_settings(config).hidden_dropout_prob);
  }
  const bool masked = kind.predicts_tokens;
  plan.head.dense = masked ? "vocab_transform" : "pre_classifier";
  plan.head.norm = "vocab_layer_norm";
  plan.head.bias = "vocab_projector.bias";
  if (!masked) plan.head.activation = ops::Activation::relu;
  return plan;
}

}  // namespace

extern const Family distilbert = {
    .model_type = "distilbert",
    .title = "DistilBERT",
    .class_prefix = "DistilBert",
    .token_types = false,
    .names = {.base = "distilbert.",
              .base_parts = {"embeddings.", "transformer."},
              .word_embeddings = "distilbert.embeddings.word_embeddings.weight",
              .decoder = "vocab_projector.weight",
              .decoder_bias = "",
              .prediction_bias = "vocab_projector.bias",
              .prediction_transform = "vocab_transform.weight",
              .sequence_head = {"classifier.", "pre_classifier."},
              .masked_lm_head = {"vocab_"}},
    .read = read,
    .write = write,
    .plan = plan,
    .check = check_encoder,
    .numbers = encoder_numbers,
};

}  // namespace bert_hpc::model
