// ModernBERT (Warner et al., "Smarter, better, faster, longer: a modern bidirectional encoder for fast, memory
// efficient, and long context finetuning and inference", 2024) and the models of its kind (Ettin, mmBERT, …):
// config.json, plan and weight names of Transformers' ModernBertForMaskedLM and its relatives. Layer norms come before
// the sublayers, without biases, as all products of the encoder; the first attention reads the embeddings' norm, which
// is also the residual. Positions are rotary; two of three layers attend to a window. Feed-forward layers have a gate.
// All heads share a dense layer with GELU and layer norm, also those of tokens.
// Files have keys of two generations of Transformers: global_rope_theta, local_rope_theta and
// global_attn_every_n_layers, or rope_parameters and layer_types. Both are read, and both are written.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/core/model_limits.hpp"
#include "bert_hpc/core/text.hpp"
#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::int64_t usual_vocabulary = 50368, usual_layers = 22, usual_intermediate = 1152, usual_positions = 8192;
constexpr double usual_epsilon = 1e-5;
constexpr double cutoff_of_null = 3, least_cutoff = 0.5;  // as Transformers reads null, and as values can be drawn
constexpr const char* of_all_tokens = "full_attention";
constexpr const char* of_a_window = "sliding_attention";

struct ModernBertSettings {
  EncoderSettings encoder;
  double attention_output_dropout = 0;  ///< behind the output of attention
  double global_theta = 160000, local_theta = 10000;
  double window = 128;                     ///< tokens of a window, half of them on each side
  double global_every = 3;                 ///< every so manieth layer attends to all tokens, the first one included
  std::vector<std::string> layer_types{};  ///< of a file whose layers follow no such period; otherwise empty
  double cutoff = 2;                       ///< of initial values, in deviations
  bool decoder_bias = true;
  std::string pooling = "cls";  ///< "cls" or "mean": input of the head of sequences
};

const ModernBertSettings& settings_of(const ModelConfig& config) {
  return config.own.as<ModernBertSettings>();
}
ModernBertSettings& settings_of(ModelConfig& config) {
  return config.own.change<ModernBertSettings>();
}

bool is_global(const ModernBertSettings& own, std::int64_t layer) {
  if (!own.layer_types.empty()) return own.layer_types[static_cast<std::size_t>(layer)] == of_all_tokens;
  return layer % std::max<std::int64_t>(1, static_cast<std::int64_t>(own.global_every)) == 0;
}

/// The period of layers that attend to all tokens; 0 if there is none.
std::int64_t period_of(const std::vector<std::string>& types) {
  for (std::int64_t every = 1; every <= std::ssize(types); ++every) {
    std::int64_t layer = 0;
    while (layer < std::ssize(types) &&
           (types[static_cast<std::size_t>(layer)] == of_all_tokens) == (layer % every == 0)) {
      ++layer;
    }
    if (layer == std::ssize(types)) return every;
  }
  return 0;
}

void read_layer_types(ConfigReader& reader, core::ProblemList& problems, const ModelConfig& config,
                      ModernBertSettings& own) {
  std::optional<std::int64_t> every;
  reader.integer("global_attn_every_n_layers", every);
  own.global_every = static_cast<double>(every.value_or(static_cast<std::int64_t>(own.global_every)));
  const nlohmann::json* const list = reader.find("layer_types");
  if (list == nullptr || list->is_null()) return;
  const auto is_type = [](const nlohmann::json& type) { return type == of_all_tokens || type == of_a_window; };
  if (!list->is_array() || std::ssize(*list) != config.num_hidden_layers ||
      !std::all_of(list->begin(), list->end(), is_type)) {
    problems.add("layer_types must list \"full_attention\" or \"sliding_attention\" for each of the " +
                 core::counted(config.num_hidden_layers, "layer") + ".");
    return;
  }
  const auto types = list->get<std::vector<std::string>>();
  for (std::size_t layer = 0; every && layer < types.size(); ++layer) {
    const bool all = static_cast<std::int64_t>(layer) % std::max<std::int64_t>(1, *every) == 0;
    if (all == (types[layer] == of_all_tokens)) continue;
    problems.add("global_attn_every_n_layers is " + std::to_string(*every) + ", but layer_types names layer " +
                 std::to_string(layer) + " \"" + types[layer] + "\": remove the wrong one of the two keys.");
    return;
  }
  const std::int64_t period = every.value_or(period_of(types));
  if (period == 0) own.layer_types = types;
  if (period > 0) own.global_every = static_cast<double>(period);
}

void read(ConfigReader& reader, ModelConfig& config) {
  ModernBertSettings& own = settings_of(config);
  core::ProblemList& problems = reader.problems();
  config.vocab_size = usual_vocabulary;
  config.num_hidden_layers = usual_layers;
  config.intermediate_size = usual_intermediate;
  config.max_position_embeddings = usual_positions;
  config.type_vocab_size = 0;
  own.encoder.hidden_dropout_prob = own.encoder.attention_probs_dropout_prob = 0;
  own.encoder.layer_norm_eps = usual_epsilon;
  reader.integer("vocab_size", config.vocab_size);
  reader.integer("hidden_size", config.hidden_size);
  reader.integer("num_hidden_layers", config.num_hidden_layers);
  reader.integer("num_attention_heads", config.num_attention_heads);
  reader.integer("intermediate_size", config.intermediate_size);
  reader.integer("max_position_embeddings", config.max_position_embeddings);
  reader.number("norm_eps", own.encoder.layer_norm_eps);
  reader.number("initializer_range", config.initializer_range);
  std::optional<double> cutoff;
  reader.number("initializer_cutoff_factor", cutoff);
  if (reader.find("initializer_cutoff_factor") != nullptr) own.cutoff = cutoff.value_or(cutoff_of_null);
  reader.number("embedding_dropout", own.encoder.embedding_dropout);
  reader.number("attention_dropout", own.encoder.attention_probs_dropout_prob);
  own.attention_output_dropout = own.encoder.attention_probs_dropout_prob;
  reader.number("attention_output_dropout", own.attention_output_dropout);
  reader.number("classifier_dropout", own.encoder.classifier_dropout);
  double inner_dropout = 0;
  reader.number("mlp_dropout", inner_dropout);
  if (inner_dropout != 0) {
    problems.add("mlp_dropout is not 0, but dropout inside the feed-forward layers is not built in.");
  }
  reader.number("local_attention", own.window);
  reader.text("hidden_activation", own.encoder.hidden_act);
  reader.text("classifier_pooling", own.pooling);
  reader.boolean("decoder_bias", own.decoder_bias);
  read_rotary_theta(reader, "global_rope_theta", of_all_tokens, own.global_theta);
  read_rotary_theta(reader, "local_rope_theta", of_a_window, own.local_theta);
  read_layer_types(reader, problems, config, own);
  reader.must_be("classifier_activation", "gelu", "the heads' dense layer has the exact GELU.");
  for (const char* const key : {"attention_bias", "mlp_bias", "norm_bias", "classifier_bias"}) {
    reader.must_be(key, false, "only the classifier and the decoder have biases.");
  }
}

void write(const ModelConfig& config, nlohmann::json& root) {
  const ModernBertSettings& own = settings_of(config);
  const EncoderSettings& encoder = own.encoder;
  root["attention_bias"] = false;
  root["attention_dropout"] = encoder.attention_probs_dropout_prob;
  if (own.attention_output_dropout != encoder.attention_probs_dropout_prob) {
    root["attention_output_dropout"] = own.attention_output_dropout;
  }
  root["classifier_activation"] = "gelu";
  root["classifier_bias"] = false;
  root["classifier_dropout"] = encoder.head_dropout();
  root["classifier_pooling"] = own.pooling;
  root["decoder_bias"] = own.decoder_bias;
  root["embedding_dropout"] = encoder.embedding_dropout.value_or(0);
  if (own.layer_types.empty()) root["global_attn_every_n_layers"] = static_cast<std::int64_t>(own.global_every);
  root["global_rope_theta"] = own.global_theta;
  root["hidden_activation"] = encoder.hidden_act;
  root["hidden_size"] = config.hidden_size;
  root["initializer_cutoff_factor"] = own.cutoff;
  root["initializer_range"] = config.initializer_range;
  root["intermediate_size"] = config.intermediate_size;
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    types.emplace_back(is_global(own, layer) ? of_all_tokens : of_a_window);
  }
  root["layer_types"] = std::move(types);
  root["local_attention"] = static_cast<std::int64_t>(own.window);
  root["local_rope_theta"] = own.local_theta;
  root["max_position_embeddings"] = config.max_position_embeddings;
  root["mlp_bias"] = false;
  root["mlp_dropout"] = 0.0;
  root["norm_bias"] = false;
  root["norm_eps"] = encoder.layer_norm_eps;
  root["num_attention_heads"] = config.num_attention_heads;
  root["num_hidden_layers"] = config.num_hidden_layers;
  root["rope_parameters"] = {{of_all_tokens, {{"rope_theta", own.global_theta}, {"rope_type", "default"}}},
                             {of_a_window, {{"rope_theta", own.local_theta}, {"rope_type", "default"}}}};
  root["vocab_size"] = config.vocab_size;
  // Without these keys Transformers takes ids of its own vocabulary.
  for (const char* const key : {"bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"}) root[key] = nullptr;
}

const std::string base = "model.";

BlockNames block_names(const ModelConfig& config) {
  return {.block = base + "layers.",
          .query = "attn.Wqkv.query",
          .key = "attn.Wqkv.key",
          .value = "attn.Wqkv.value",
          .attention_output = "attn.Wo",
          .attention_norm = "mlp_norm",
          .intermediate = "mlp.Wi.input",
          .output = "mlp.Wo",
          .norm = "attn_norm",
          .gate = "mlp.Wi.gate",
          .biases = false,
          .norm_kind = layers::NormKind::layer_without_bias,
          .change_attention = [own = settings_of(config)](std::int64_t block, layers::AttentionSettings& attention) {
            const bool all = is_global(own, block);
            attention.rotary_theta = all ? own.global_theta : own.local_theta;
            if (!all) attention.mask = ops::AttentionMask::window(static_cast<std::int32_t>(own.window / 2));
          }};
}

/// Megatron's initial values, cut off: normal values of the model's deviation, smaller where a sum over all layers
/// follows, and 1/√hidden_size for classifiers.
void set_initial_values(const ModelConfig& config, core::ParameterSpec& spec) {
  const ModernBertSettings& own = settings_of(config);
  if (spec.initial != core::InitialValues::normal || spec.adapter) return;
  spec.cutoff = own.cutoff;
  if (spec.name.ends_with(".Wo.weight") || spec.name == "head.dense.weight") {
    spec.deviation = config.initializer_range / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
  } else if (spec.name == "classifier.weight") {
    spec.deviation = 1 / std::sqrt(static_cast<double>(config.hidden_size));
  }
}

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  const ModernBertSettings& own = settings_of(config);
  const BlockNames names = block_names(config);
  ModelPlan plan = encoder_plan(config, own.encoder, names, kind, outputs);
  layers::change_embeddings(plan.input, [](layers::EmbeddingsSettings& embeddings) {
    embeddings.word = base + "embeddings.tok_embeddings";
    embeddings.norm = base + "embeddings.norm";
    embeddings.norm_kind = layers::NormKind::layer_without_bias;
    embeddings.positions = 0;
  });
  put_norms_before(plan, names, base + "final_norm");
  for (layers::SublayerSettings& sublayer : plan.sublayers) {
    sublayer.hidden_dropout = sublayer.kind->mixes_tokens() ? static_cast<float>(own.attention_output_dropout) : 0;
  }
  for (std::int64_t block = 0; block < config.num_hidden_layers; ++block) {
    const std::string prefix = names.prefix(block);
    add_joined(plan.weights, prefix, "attn.Wqkv", {names.query, names.key, names.value}, config.hidden_size);
    add_joined(plan.weights, prefix, "mlp.Wi", {names.intermediate, names.gate}, config.intermediate_size);
  }
  plan.change_spec = [config](core::ParameterSpec& spec) { set_initial_values(config, spec); };
  if (kind.outputs_embeddings) return plan;
  layers::HeadSettings& head = plan.head;
  head.dense = "head.dense";
  head.norm = "head.norm";
  head.dense_bias = false;
  head.norm_kind = layers::NormKind::layer_without_bias;
  head.norms_dense = head.dense_of_tokens = true;
  head.activation = ops::Activation::gelu;
  head.classifier = "classifier";
  head.classifier_dropout = static_cast<float>(own.encoder.head_dropout());
  head.bias = own.decoder_bias ? "decoder.bias" : "";
  if (!kind.predicts_tokens && !kind.is_token_head && own.pooling == "mean") {
    head.pooling = ops::Pooling::mean;
    plan.selects_from = plan.sublayer_count();
  }
  return plan;
}

void check(const ModelConfig& config, core::ProblemList& problems) {
  const ModernBertSettings& own = settings_of(config);
  check_encoder_numbers(own.encoder, problems, "embedding_dropout");
  check_probability("attention_output_dropout", own.attention_output_dropout, problems);
  if (own.encoder.hidden_act != "gelu") {
    problems.add("hidden_activation is " + core::in_quotes(own.encoder.hidden_act) +
                 ", but only \"gelu\" (exact, with the error function) is built in.");
  }
  const auto whole = [&](const char* key, double value, double low) {
    if (value >= low && value <= static_cast<double>(core::largest_size) && value == std::floor(value)) return;
    std::ostringstream text;
    text << key << " is " << value << ", but must be a whole number of at least " << low << '.';
    problems.add(text.str());
  };
  whole("local_attention", own.window, 0);
  whole("global_attn_every_n_layers", own.global_every, 1);
  if (!(own.global_theta > 0 && own.local_theta > 0)) {
    problems.add("global_rope_theta and local_rope_theta must be above 0.");
  }
  if (!(own.cutoff >= least_cutoff)) {
    std::ostringstream text;
    text << "initializer_cutoff_factor is " << own.cutoff << ", but must be at least " << least_cutoff << '.';
    problems.add(text.str());
  }
  check_rotated_heads(config, problems);
}

std::span<const OwnNumber> numbers() {
  static constexpr std::array all = {
      encoder_number<ModernBertSettings, &EncoderSettings::attention_probs_dropout_prob>("attention_probs_dropout_prob",
                                                                                         is_probability),
      own_number<ModernBertSettings, &ModernBertSettings::attention_output_dropout>("attention_output_dropout",
                                                                                    is_probability),
      encoder_number<ModernBertSettings, &EncoderSettings::embedding_dropout>("embedding_dropout", is_probability),
      encoder_number<ModernBertSettings, &EncoderSettings::classifier_dropout>("classifier_dropout", is_probability),
      encoder_number<ModernBertSettings, &EncoderSettings::layer_norm_eps>("layer_norm_eps", is_epsilon),
      own_number<ModernBertSettings, &ModernBertSettings::window>("local_attention",
                                                                  {.low = 0, .high = core::largest_size}),
      OwnNumber{.key = "global_attn_every_n_layers",
                .limits = {.low = 1, .high = core::max_layers},
                .get = [](const ModelConfig& config) -> std::optional<double> {
                  const ModernBertSettings& own = settings_of(config);
                  return own.layer_types.empty() ? std::optional(own.global_every) : std::nullopt;
                },
                .set =
                    [](ModelConfig& config, double value) {
                      settings_of(config).global_every = value;
                      settings_of(config).layer_types.clear();
                    }},
      own_number<ModernBertSettings, &ModernBertSettings::global_theta>("global_rope_theta", is_positive),
      own_number<ModernBertSettings, &ModernBertSettings::local_theta>("local_rope_theta", is_positive),
  };
  return all;
}

constexpr const char* poolings[] = {"cls", "mean"};

constexpr OwnWord pooling = pooling_word<ModernBertSettings>("classifier_pooling", poolings);

}  // namespace

extern const Family modernbert = {
    .model_type = "modernbert",
    .title = "ModernBERT",
    .class_prefix = "ModernBert",
    .token_types = false,
    .names = {.base = base,
              .base_parts = {"embeddings.", "layers.", "final_norm."},
              .word_embeddings = "model.embeddings.tok_embeddings.weight",
              .decoder = "decoder.weight",
              .decoder_bias = "",
              .prediction_bias = "decoder.bias",
              .prediction_transform = "head.dense.weight",
              .classifier = "classifier.",
              .shared_head = "head.",
              .sequence_head = {"classifier."},
              .masked_lm_head = {"decoder."},
              .buffers = {"inv_freq"}},
    .read = read,
    .write = write,
    .plan = plan,
    .check = check,
    .numbers = numbers,
    .words = {&pooling, 1},
};

}  // namespace bert_hpc::model
