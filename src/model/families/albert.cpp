// ALBERT (Lan et al., "ALBERT: a lite BERT for self-supervised learning of language representations", 2020):
// config.json, plan and weight names of Transformers' AlbertForSequenceClassification and its relatives. It is BERT's
// encoder with embeddings of fewer columns and a linear layer behind them; all blocks of a group have the same
// parameters, which files hold once. Each block stores them for itself here, so that blocks can lie on any stage, and
// train/shared_gradients.hpp keeps them equal.
#include <array>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/layers/projected_embeddings.hpp"
#include "family.hpp"

namespace bert_hpc::model {
namespace {

// AlbertConfig's defaults, which are not BERT's; sizes are those of the xxlarge model.
constexpr std::int64_t usual_vocabulary = 30000, usual_embeddings = 128, usual_hidden = 4096, usual_heads = 64,
                       usual_intermediate = 16384;
constexpr double usual_classifier_dropout = 0.1;

struct AlbertSettings {
  EncoderSettings encoder{};
  std::int64_t groups = 1;  ///< of blocks
};

const AlbertSettings& own_of(const ModelConfig& config) {
  return config.own.as<AlbertSettings>();
}

void read(ConfigReader& reader, ModelConfig& config) {
  auto& own = config.own.change<AlbertSettings>();
  EncoderSettings& encoder = own.encoder;
  encoder.hidden_act = gelu_with_tanh.front();
  encoder.hidden_dropout_prob = encoder.attention_probs_dropout_prob = 0;
  encoder.classifier_dropout = usual_classifier_dropout;
  config.vocab_size = usual_vocabulary;
  config.hidden_size = usual_hidden;
  config.num_attention_heads = usual_heads;
  config.intermediate_size = usual_intermediate;
  config.embedding_size = usual_embeddings;
  reader.integer("vocab_size", config.vocab_size);
  reader.integer("embedding_size", config.embedding_size);
  reader.integer("hidden_size", config.hidden_size);
  reader.integer("num_hidden_layers", config.num_hidden_layers);
  reader.integer("num_hidden_groups", own.groups);
  reader.integer("num_attention_heads", config.num_attention_heads);
  reader.integer("intermediate_size", config.intermediate_size);
  reader.integer("max_position_embeddings", config.max_position_embeddings);
  reader.integer("type_vocab_size", config.type_vocab_size);
  reader.number("hidden_dropout_prob", encoder.hidden_dropout_prob);
  reader.number("attention_probs_dropout_prob", encoder.attention_probs_dropout_prob);
  reader.number("classifier_dropout_prob", encoder.classifier_dropout);
  reader.number("layer_norm_eps", encoder.layer_norm_eps);
  reader.number("initializer_range", config.initializer_range);
  reader.text("hidden_act", encoder.hidden_act);
  reader.must_be("inner_group_num", std::int64_t{1}, "a group has the parameters of one block.");
}

void write(const ModelConfig& config, nlohmann::json& root) {
  const AlbertSettings& own = own_of(config);
  const EncoderSettings& encoder = own.encoder;
  root["attention_probs_dropout_prob"] = encoder.attention_probs_dropout_prob;
  root["classifier_dropout_prob"] = encoder.head_dropout();
  root["embedding_size"] = config.embedding_size;
  root["hidden_act"] = encoder.hidden_act;
  root["hidden_dropout_prob"] = encoder.hidden_dropout_prob;
  root["hidden_size"] = config.hidden_size;
  root["initializer_range"] = config.initializer_range;
  root["inner_group_num"] = 1;
  root["intermediate_size"] = config.intermediate_size;
  root["layer_norm_eps"] = encoder.layer_norm_eps;
  root["max_position_embeddings"] = config.max_position_embeddings;
  root["num_attention_heads"] = config.num_attention_heads;
  root["num_hidden_groups"] = own.groups;
  root["num_hidden_layers"] = config.num_hidden_layers;
  root["type_vocab_size"] = config.type_vocab_size;
  root["vocab_size"] = config.vocab_size;
}

/// The group of a block: Transformers' int(i / (num_hidden_layers / num_hidden_groups)) in whole numbers.
std::int64_t group_of(const ModelConfig& config, std::int64_t block) {
  return block * own_of(config).groups / config.num_hidden_layers;
}

const std::string base = "albert.", encoder_part = base + "encoder.", copies_part = encoder_part + "block.";

/// How names of a group's parameters begin in files.
std::string prefix_of_group(std::int64_t group) {
  return encoder_part + "albert_layer_groups." + std::to_string(group) + ".albert_layers.0.";
}

/// How names of a block's parameters begin here: the first block of a group has those of the files.
std::string prefix_of_block(const ModelConfig& config, std::int64_t block) {
  const std::int64_t group = group_of(config, block);
  const bool is_first = block == 0 || group_of(config, block - 1) != group;
  return is_first ? prefix_of_group(group) : copies_part + std::to_string(block) + '.';
}

/// The parameter of which another block's is a copy; "" if this one is none.
std::string original_of(const ModelConfig& config, const std::string& name) {
  if (!name.starts_with(copies_part)) return "";
  const std::size_t end = name.find('.', copies_part.size());
  const std::int64_t block = std::stoll(name.substr(copies_part.size(), end - copies_part.size()));
  return prefix_of_group(group_of(config, block)) + name.substr(end + 1);
}

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  const EncoderSettings& encoder = own_of(config).encoder;
  const ops::Activation activation =
      has_gelu_with_tanh(encoder.hidden_act) ? ops::Activation::gelu_tanh : ops::Activation::gelu;
  const BlockNames names = {.query = "attention.query",
                            .key = "attention.key",
                            .value = "attention.value",
                            .attention_output = "attention.dense",
                            .attention_norm = "attention.LayerNorm",
                            .intermediate = "ffn",
                            .output = "ffn_output",
                            .norm = "full_layer_layer_norm",
                            .activation = activation,
                            .own_prefix = [&config](std::int64_t block) { return prefix_of_block(config, block); }};
  ModelPlan plan = encoder_plan(config, encoder, names, kind, outputs);
  for (layers::SublayerSettings& sublayer : plan.sublayers) {
    if (!sublayer.kind->mixes_tokens()) sublayer.hidden_dropout = 0;  // only attention's result is dropped
    for (const layers::SublayerLinear& layer : sublayer.kind->linear_layers(sublayer)) {
      const std::string weight = layer.name + ".weight", original = original_of(config, weight);
      if (!original.empty()) plan.weights.add(weight, {.tensor = original});
    }
  }
  layers::EmbeddingsSettings embeddings = layers::embeddings_settings(*plan.input);
  embeddings.word = base + "embeddings.word_embeddings";
  embeddings.position = base + "embeddings.position_embeddings";
  embeddings.type = base + "embeddings.token_type_embeddings";
  embeddings.norm = base + "embeddings.LayerNorm";
  embeddings.hidden = config.embedding_size;
  plan.input = layers::projected_embeddings(std::move(embeddings), encoder_part + "embedding_hidden_mapping_in",
                                            config.hidden_size);
  plan.shares_blocks = own_of(config).groups < config.num_hidden_layers;
  plan.change_spec = [config](core::ParameterSpec& spec) {
    if (const std::string original = original_of(config, spec.name); !original.empty()) spec.copy_of = original;
  };
  plan.head.decoder_columns = config.embedding_size;
  plan.head.dense = kind.predicts_tokens ? "predictions.dense" : base + "pooler";
  plan.head.norm = "predictions.LayerNorm";
  plan.head.bias = "predictions.bias";
  if (kind.predicts_tokens) plan.head.activation = activation;
  name_pretraining_head(plan, base + "pooler", "sop_classifier.classifier", encoder.head_dropout());
  return plan;
}

void check(const ModelConfig& config, core::ProblemList& problems) {
  const AlbertSettings& own = own_of(config);
  check_encoder_numbers(own.encoder, problems);
  if (config.pad_token_id == no_token) problems.add("pad_token_id is -1, but token ids go from 0 on.");
  if (config.embedding_size < 1) problems.add("embedding_size is 0, but embeddings have columns of their own.");
  if (own.groups < 1 || own.groups > config.num_hidden_layers) {
    problems.add("num_hidden_groups is " + std::to_string(own.groups) + ", but must be from 1 to num_hidden_layers, " +
                 std::to_string(config.num_hidden_layers) + '.');
  }
  const std::string& activation = own.encoder.hidden_act;
  if (activation != "gelu" && !has_gelu_with_tanh(activation)) {
    problems.add("hidden_act is " + core::in_quotes(activation) +
                 ", but only \"gelu\" and \"gelu_new\" (with the tanh) are built in.");
  }
}

std::span<const OwnNumber> numbers() {
  static constexpr std::array own = {
      encoder_number<AlbertSettings, &EncoderSettings::hidden_dropout_prob>("hidden_dropout_prob", is_probability),
      encoder_number<AlbertSettings, &EncoderSettings::attention_probs_dropout_prob>("attention_probs_dropout_prob",
                                                                                     is_probability),
      encoder_number<AlbertSettings, &EncoderSettings::layer_norm_eps>("layer_norm_eps", is_epsilon),
      encoder_number<AlbertSettings, &EncoderSettings::classifier_dropout>("classifier_dropout", is_probability),
  };
  return own;
}

}  // namespace

extern const Family albert = {
    .model_type = "albert",
    .title = "ALBERT",
    .class_prefix = "Albert",
    .projects_embeddings = true,
    .of_scratch = R"({"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072})",
    .names = {.base = base,
              .base_parts = {"embeddings.", "encoder.", "pooler."},
              .word_embeddings = "albert.embeddings.word_embeddings.weight",
              .decoder = "predictions.decoder.weight",
              .decoder_bias = "predictions.decoder.bias",
              .prediction_bias = "predictions.bias",
              .prediction_transform = "predictions.dense.weight",
              .sequence_head = {"classifier.", "albert.pooler."},
              .masked_lm_head = {"predictions.", "sop_classifier."},
              .pretraining_head = {"albert.pooler."}},
    .read = read,
    .write = write,
    .plan = plan,
    .check = check,
    .numbers = numbers,
};

}  // namespace bert_hpc::model
