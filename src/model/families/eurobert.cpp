// EuroBERT (Boizard et al., "EuroBERT: scaling multilingual encoders for European languages", 2025): config.json, plan
// and weight names of Transformers' EuroBertForMaskedLM and its relatives. It is a Llama without the causal mask: RMS
// norms before the sublayers, rotary positions, feed-forward layers with a gate (SwiGLU), products without biases, and
// a decoder of its own. In its models above 210 million parameters several heads share keys and values.
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json_strict.hpp"
#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::int64_t usual_vocabulary = 128256, usual_positions = 8192;
constexpr double usual_epsilon = 1e-5, usual_theta = 10000;
constexpr std::int64_t no_divisor = -1;  // number of heads of keys and values that is refused

struct EuroBertSettings {
  EncoderSettings encoder;
  /// Input of the head of sequences: the first token ("bos") or the mean of all ("mean"); or the head's dense layer
  /// computes all tokens, and the mean of its results is classified ("late").
  std::string pooling = "late";
};

const EuroBertSettings& settings_of(const ModelConfig& config) {
  return config.own.as<EuroBertSettings>();
}
EuroBertSettings& settings_of(ModelConfig& config) {
  return config.own.change<EuroBertSettings>();
}

/// Keys that say what is not built in.
void refuse_others(ConfigReader& reader, const ModelConfig& config) {
  if (config.num_attention_heads > 0) {
    std::int64_t columns = config.head_dim();
    reader.integer("head_dim", columns);
    if (columns != config.head_dim()) {
      reader.problems().add("head_dim is " + std::to_string(columns) +
                            ", but each head has its share of hidden_size: " + std::to_string(config.head_dim()) + '.');
    }
  }
  const nlohmann::json* const scaling = reader.find("rope_scaling");
  if (scaling != nullptr && !scaling->is_null()) {
    reader.problems().add("rope_scaling is set, but scaled angles are not built in.");
  }
  for (const char* const key : {"attention_bias", "mlp_bias"}) {
    reader.must_be(key, false, "the encoder's products have no biases.");
  }
}

void read(ConfigReader& reader, ModelConfig& config) {
  EuroBertSettings& own = settings_of(config);
  config.vocab_size = usual_vocabulary;
  config.max_position_embeddings = usual_positions;
  config.type_vocab_size = 0;
  config.ties_word_embeddings = false;
  own.encoder.hidden_dropout_prob = own.encoder.attention_probs_dropout_prob = 0;
  own.encoder.layer_norm_eps = usual_epsilon;
  own.encoder.hidden_act = "silu";
  own.encoder.rotary_theta = usual_theta;
  reader.integer("vocab_size", config.vocab_size);
  reader.integer("hidden_size", config.hidden_size);
  reader.integer("num_hidden_layers", config.num_hidden_layers);
  reader.integer("num_attention_heads", config.num_attention_heads);
  std::optional<std::int64_t> key_heads;
  reader.integer("num_key_value_heads", key_heads);
  if (key_heads) config.num_key_value_heads = *key_heads >= 1 ? *key_heads : no_divisor;
  reader.integer("intermediate_size", config.intermediate_size);
  reader.integer("max_position_embeddings", config.max_position_embeddings);
  reader.number("initializer_range", config.initializer_range);
  reader.number("attention_dropout", own.encoder.attention_probs_dropout_prob);
  reader.number("rms_norm_eps", own.encoder.layer_norm_eps);
  reader.text("hidden_act", own.encoder.hidden_act);
  for (const char* const key : {"clf_pooling", "classifier_pooling"}) reader.text(key, own.pooling);
  read_rotary_theta(reader, "rope_theta", "", own.encoder.rotary_theta);
  refuse_others(reader, config);
}

void write(const ModelConfig& config, nlohmann::json& root) {
  const EuroBertSettings& own = settings_of(config);
  root["attention_bias"] = false;
  root["attention_dropout"] = own.encoder.attention_probs_dropout_prob;
  root["classifier_pooling"] = own.pooling;
  root["head_dim"] = config.head_dim();
  root["hidden_act"] = own.encoder.hidden_act;
  root["hidden_size"] = config.hidden_size;
  root["initializer_range"] = config.initializer_range;
  root["intermediate_size"] = config.intermediate_size;
  root["max_position_embeddings"] = config.max_position_embeddings;
  root["mlp_bias"] = false;
  root["num_attention_heads"] = config.num_attention_heads;
  root["num_hidden_layers"] = config.num_hidden_layers;
  root["num_key_value_heads"] = config.key_value_heads();
  root["rms_norm_eps"] = own.encoder.layer_norm_eps;
  root["rope_parameters"] = {{"rope_theta", own.encoder.rotary_theta}, {"rope_type", "default"}};
  root["vocab_size"] = config.vocab_size;
  // Without these keys Transformers takes ids of its own vocabulary.
  for (const char* const key : {"bos_token_id", "eos_token_id"}) root[key] = nullptr;
}

const std::string base = "model.";

ModelPlan plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  const EuroBertSettings& own = settings_of(config);
  const BlockNames names = {.block = base + "layers.",
                            .query = "self_attn.q_proj",
                            .key = "self_attn.k_proj",
                            .value = "self_attn.v_proj",
                            .attention_output = "self_attn.o_proj",
                            .attention_norm = "post_attention_layernorm",
                            .intermediate = "mlp.gate_proj",
                            .output = "mlp.down_proj",
                            .norm = "input_layernorm",
                            .activation = ops::Activation::silu,
                            .gate = "mlp.up_proj",
                            .biases = false,
                            .norm_kind = layers::NormKind::rms};
  ModelPlan plan = encoder_plan(config, own.encoder, names, kind, outputs);
  layers::change_embeddings(plan.input, [&names](layers::EmbeddingsSettings& embeddings) {
    embeddings.word = base + "embed_tokens";
    embeddings.norm = names.prefix(0) + names.norm;
    embeddings.norm_kind = names.norm_kind;
    embeddings.positions = 0;
    embeddings.sum_out = true;
  });
  put_norms_before(plan, names, base + "norm");
  layers::HeadSettings& head = plan.head;
  if (kind.outputs_embeddings || kind.is_token_head) return plan;
  head.dense = kind.predicts_tokens ? "" : "dense";
  head.bias = "";
  head.activation = ops::Activation::gelu;
  if (kind.predicts_tokens || own.pooling == "bos") return plan;
  head.pooling = ops::Pooling::mean;
  head.pools_dense = own.pooling == "late";
  plan.selects_from = plan.sublayer_count();
  return plan;
}

void check(const ModelConfig& config, core::ProblemList& problems) {
  const EncoderSettings& own = settings_of(config).encoder;
  check_encoder_numbers(own, problems);
  if (own.hidden_act != "silu") {
    problems.add("hidden_act is " + core::in_quotes(own.hidden_act) + ", but only \"silu\" is built in.");
  }
  if (!(own.rotary_theta > 0)) problems.add("rope_theta must be above 0.");
  check_rotated_heads(config, problems);
  const std::int64_t shared = config.num_key_value_heads;
  if (shared != 0 && (shared < 1 || config.num_attention_heads % shared != 0)) {
    problems.add("num_key_value_heads must be a whole number that divides num_attention_heads, " +
                 std::to_string(config.num_attention_heads) + '.');
  }
}

std::span<const OwnNumber> numbers() {
  static constexpr std::array all = {
      encoder_number<EuroBertSettings, &EncoderSettings::attention_probs_dropout_prob>("attention_probs_dropout_prob",
                                                                                       is_probability),
      OwnNumber{.key = "num_key_value_heads",
                .limits = {.low = 1, .high = core::largest_size},
                .get = [](const ModelConfig& config) -> std::optional<double> {
                  return static_cast<double>(config.key_value_heads());
                },
                .set =
                    [](ModelConfig& config, double value) {
                      config.num_key_value_heads =
                          value == std::floor(value) ? static_cast<std::int64_t>(value) : no_divisor;
                    }},
      encoder_number<EuroBertSettings, &EncoderSettings::layer_norm_eps>("layer_norm_eps", is_epsilon),
      encoder_number<EuroBertSettings, &EncoderSettings::rotary_theta>("rope_theta", is_positive),
  };
  return all;
}

constexpr const char* poolings[] = {"bos", "mean", "late"};

constexpr OwnWord pooling = pooling_word<EuroBertSettings>("classifier_pooling", poolings);

}  // namespace

extern const Family eurobert = {
    .model_type = "eurobert",
    .title = "EuroBERT",
    .class_prefix = "EuroBert",
    .token_types = false,
    .of_scratch = R"({"rope_theta": 250000})",
    .names = {.base = base,
              .base_parts = {"embed_tokens.", "layers.", "norm."},
              .word_embeddings = "model.embed_tokens.weight",
              .decoder = "lm_head.weight",
              .decoder_bias = "",
              .prediction_bias = "",
              .prediction_transform = "",
              .sequence_head = {"classifier.", "dense."},
              .masked_lm_head = {"lm_head."},
              .buffers = {"inv_freq"}},
    .read = read,
    .write = write,
    .plan = plan,
    .check = check,
    .numbers = numbers,
    .words = {&pooling, 1},
};

}  // namespace bert_hpc::model
