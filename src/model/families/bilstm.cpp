// Bi-LSTM classifiers (Graves and Schmidhuber 2005): config.json of our own, as Transformers has no such model, and
// PyTorch's names of weights in a module with embedding = nn.Embedding(…), lstm = nn.LSTM(…, bidirectional=True) and
// classifier = nn.Linear(2 · hidden_size, …). A pipeline can be cut behind each layer, the pooling and the dropout
// before the classifier.
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/core/model_limits.hpp"
#include "bert_hpc/layers/feature_rows.hpp"
#include "bert_hpc/layers/recurrent_sublayers.hpp"
#include "bert_hpc/layers/token_table.hpp"
#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::int64_t usual_hidden = 256, usual_layers = 2;
constexpr double usual_initial_range = 0.05;
constexpr std::uint32_t first_site = 1;

struct BilstmSettings {
  double hidden_dropout_prob = 0.1;  ///< between LSTM layers
  double classifier_dropout = 0.1;   ///< before the classifier
  std::string pooling = "ends";      ///< "ends", "mean" or "max": input of the head of sequences
};

const BilstmSettings& settings_of(const ModelConfig& config) {
  return config.own.as<BilstmSettings>();
}
BilstmSettings& settings_of(ModelConfig& config) {
  return config.own.change<BilstmSettings>();
}

void read(ConfigReader& reader, ModelConfig& config) {
  BilstmSettings& own = settings_of(config);
  config.hidden_size = usual_hidden;
  config.embedding_size = usual_hidden;
  config.ties_word_embeddings = false;
  config.num_hidden_layers = usual_layers;
  config.initializer_range = usual_initial_range;
  // Sizes that only models with attention have.
  config.num_attention_heads = 1;
  config.intermediate_size = 1;
  config.max_position_embeddings = core::largest_size;
  config.type_vocab_size = 0;
  reader.integer("vocab_size", config.vocab_size);
  reader.integer("embedding_size", config.embedding_size);
  reader.integer("hidden_size", config.hidden_size);
  reader.integer("num_hidden_layers", config.num_hidden_layers);
  reader.number("hidden_dropout_prob", own.hidden_dropout_prob);
  reader.number("classifier_dropout", own.classifier_dropout);
  reader.text("pooling", own.pooling);
  reader.text("embedded_by", config.embedded_by);
  reader.number("initializer_range", config.initializer_range);
}

void write(const ModelConfig& config, nlohmann::json& root) {
  const BilstmSettings& own = settings_of(config);
  root["classifier_dropout"] = own.classifier_dropout;
  if (!config.embedded_by.empty()) root["embedded_by"] = config.embedded_by;
  root["embedding_size"] = config.embedding_size;
  root["hidden_dropout_prob"] = own.hidden_dropout_prob;
  root["hidden_size"] = config.hidden_size;
  root["initializer_range"] = config.initializer_range;
  root["num_hidden_layers"] = config.num_hidden_layers;
  root["pooling"] = own.pooling;
  if (config.embedded_by.empty()) root["vocab_size"] = config.vocab_size;
}

/// Names of a layer's parameters in both directions: "lstm.weight_ih_l0", "lstm.weight_ih_l0_reverse".
std::array<std::string, 2> names_of(const char* parameter, std::int64_t layer) {
  const std::string forward = std::string("lstm.") + parameter + "_l" + std::to_string(layer);
  return {forward, forward + "_reverse"};
}

std::optional<ops::Pooling> pooling_of(const HeadKind& kind, const BilstmSettings& own) {
  if (kind.is_token_head || kind.reads_all_tokens) return std::nullopt;
  if (own.pooling == "mean") return ops::Pooling::mean;
  return own.pooling == "max" ? ops::Pooling::max : ops::Pooling::ends;
}

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  if (kind.predicts_tokens || kind.outputs_embeddings) {
    throw core::Error(core::ExitCode::input, std::string("a Bi-LSTM has no head for ") +
                                                 (kind.outputs_embeddings ? "embeddings" : "masked tokens") +
                                                 ": use another model.family or another task.");
  }
  const BilstmSettings& own = settings_of(config);
  const std::int64_t states = config.hidden_size, columns = 2 * states;
  ModelPlan plan;
  if (config.embedded_by.empty()) {
    plan.input = layers::token_table({.table = "embedding.weight",
                                      .vocabulary = config.vocab_size,
                                      .columns = config.embedding_size,
                                      .padding_row = config.pad_token_id});
  } else {
    plan.input = layers::feature_rows(config.embedding_size, config.features);
  }
  const auto add = [&](std::shared_ptr<const layers::SublayerKind> sublayer, double dropout) {
    const std::int64_t block = plan.sublayer_count();  // so that users count in sublayers
    plan.sublayers.push_back({.kind = std::move(sublayer),
                              .block = block,
                              .hidden = columns,
                              .hidden_dropout = static_cast<float>(dropout),
                              .first_site = first_site + static_cast<std::uint32_t>(block)});
  };
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const bool is_last = layer + 1 == config.num_hidden_layers;
    add(layers::lstm_sublayer({.input_weight = names_of("weight_ih", layer),
                               .state_weight = names_of("weight_hh", layer),
                               .input_bias = names_of("bias_ih", layer),
                               .state_bias = names_of("bias_hh", layer),
                               .input = layer == 0 ? config.embedding_size : columns,
                               .states = states}),
        is_last ? 0 : own.hidden_dropout_prob);
  }
  plan.selects_from = plan.sublayer_count() + (kind.reads_all_tokens ? 2 : 0);
  add(layers::pooling_sublayer(pooling_of(kind, own)), 0);
  add(layers::dropout_sublayer(), own.classifier_dropout);
  layers::HeadSettings& head = plan.head;
  head.kind = kind;
  head.hidden = columns;
  head.outputs = kind.outputs(config.vocab_size, columns, outputs);
  head.classifier = kind.classifier;
  head.classifier_dropout = 0;
  head.dense = "";
  return plan;
}

void check(const ModelConfig& config, core::ProblemList& problems) {
  const BilstmSettings& own = settings_of(config);
  check_probability("hidden_dropout_prob", own.hidden_dropout_prob, problems);
  check_probability("classifier_dropout", own.classifier_dropout, problems);
}

constexpr const char* poolings[] = {"ends", "mean", "max"};

constexpr OwnWord pooling = pooling_word<BilstmSettings>("pooling", poolings);

std::span<const OwnNumber> numbers() {
  static constexpr std::array all = {
      own_number<BilstmSettings, &BilstmSettings::hidden_dropout_prob>("hidden_dropout_prob", is_probability),
      own_number<BilstmSettings, &BilstmSettings::classifier_dropout>("classifier_dropout", is_probability),
  };
  return all;
}

}  // namespace

extern const Family bilstm = {
    .model_type = "bilstm",
    .title = "Bi-LSTM",
    .class_prefix = "BiLstm",
    .token_types = false,
    .attention = false,
    .names = {.base = "",
              .base_parts = {},
              .word_embeddings = "embedding.weight",
              .decoder = "",
              .decoder_bias = "",
              .prediction_bias = "",
              .prediction_transform = "",
              .sequence_head = {"classifier."},
              .masked_lm_head = {},
              .buffers = {}},
    .read = read,
    .write = write,
    .plan = plan,
    .check = check,
    .numbers = numbers,
    .words = {&pooling, 1},
};

}  // namespace bert_hpc::model
