// A model family: how a config.json of its kind reads, the plan of its layers, and the names of its weights in Hugging
// Face's files. To add one: a file in src/model/families that defines a Family, and a line in families.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "../config_reader.hpp"
#include "bert_hpc/core/model_limits.hpp"
#include "bert_hpc/core/number_setting.hpp"
#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/model/encoder_settings.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/epilogue.hpp"

namespace bert_hpc::model {

/// Names of weights in Hugging Face's files that reading and writing must know.
struct WeightNames {
  std::string base;                     ///< prefix of all but the head, which files of a bare encoder leave out
  std::vector<std::string> base_parts;  ///< how names in such files begin
  std::string word_embeddings;
  // Of the head that predicts tokens:
  std::string decoder;                                     ///< the decoder's weight, tied to the word embeddings
  std::string decoder_bias;                                ///< a second name of the decoder's bias in files, or empty
  std::string prediction_bias;                             ///< the decoder's bias
  std::string prediction_transform;                        ///< the dense layer's weight
  std::string classifier{};                                ///< prefix of all classifiers; empty: that of the head
  std::string shared_head{};                               ///< prefix of weights that all heads share, or empty
  std::vector<std::string> sequence_head, masked_lm_head;  ///< prefixes of the weights of each head
  /// Prefixes of the layers with which pretraining labels sequences; empty: the family's models have none.
  std::vector<std::string> pretraining_head{};
  /// Ends of the names of buffers, which hold no weights.
  std::vector<std::string> buffers = {"embeddings.position_ids", "embeddings.token_type_ids"};
};

// Limits of numbers that families share.
inline constexpr core::NumberLimits is_probability = {.low = 0, .high = 1, .high_open = true};
inline constexpr core::NumberLimits is_epsilon = {.low = 0, .high = core::largest_epsilon, .low_open = true};
inline constexpr core::NumberLimits is_positive = {.low = 0, .low_open = true};

/// A number of a family's own, which [model] may change under this key.
struct OwnNumber {
  const char* key;
  core::NumberLimits limits;
  std::optional<double> (*get)(const ModelConfig& config);
  void (*set)(ModelConfig& config, double value);
};

/// A word of a family's own, which [model] may change under this key.
struct OwnWord {
  const char* key;
  const char* file_key;  ///< in config.json
  std::span<const char* const> allowed;
  const std::string& (*get)(const ModelConfig& config);
  void (*set)(ModelConfig& config, const std::string& value);
};

/// The number `member` of a family's own Settings.
template <class Settings, auto member>
constexpr OwnNumber own_number(const char* key, const core::NumberLimits& limits) {
  return {.key = key,
          .limits = limits,
          .get = [](const ModelConfig& config) -> std::optional<double> { return config.own.as<Settings>().*member; },
          .set = [](ModelConfig& config, double value) { config.own.change<Settings>().*member = value; }};
}

/// The number `member` of the EncoderSettings among a family's own Settings.
template <class Settings, auto member>
constexpr OwnNumber encoder_number(const char* key, const core::NumberLimits& limits) {
  return {.key = key,
          .limits = limits,
          .get = [](const ModelConfig& config) -> std::optional<double> {
            return config.own.as<Settings>().encoder.*member;
          },
          .set = [](ModelConfig& config, double value) { config.own.change<Settings>().encoder.*member = value; }};
}

/// [model] pooling, the member of that name of a family's own Settings.
template <class Settings>
constexpr OwnWord pooling_word(const char* file_key, std::span<const char* const> allowed) {
  return {.key = "pooling",
          .file_key = file_key,
          .allowed = allowed,
          .get = [](const ModelConfig& config) -> const std::string& { return config.own.as<Settings>().pooling; },
          .set = [](ModelConfig& config, const std::string& value) { config.own.change<Settings>().pooling = value; }};
}

struct Family {
  std::string model_type;                ///< of config.json
  std::string title;                     ///< for messages, e.g. "BERT"
  std::string class_prefix;              ///< of Transformers' classes, e.g. "Bert" of BertForMaskedLM
  bool token_types = true;               ///< it has embeddings of token types
  bool causal = false;                   ///< a token attends to itself and those before it
  bool attention = true;                 ///< it has heads, a feed-forward layer and positions
  bool positions_after_padding = false;  ///< the first position's row is behind that of the padding token's id
  bool projects_embeddings = false;      ///< embeddings may have other columns than the encoder
  bool reads_mask_tokens = false;        ///< what it computes of a mask token depends on mask_token_id
  /// Keys of config.json of a model from scratch that differ from what their absence in a file means.
  const char* of_scratch = "{}";
  WeightNames names;

  /// The values of its config.json; what is wrong goes to the reader's problems.
  void (*read)(ConfigReader& reader, ModelConfig& config);
  /// Its keys, but those that all families share (hf_config.cpp).
  void (*write)(const ModelConfig& config, nlohmann::json& root);
  ModelPlan (*plan)(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs);
  /// Adds a sentence to `problems` for each of its own values that cannot be.
  void (*check)(const ModelConfig& config, core::ProblemList& problems);
  std::span<const OwnNumber> (*numbers)();
  std::span<const OwnWord> words{};
};

/// Every family, BERT first.
std::span<const Family* const> families();
/// Throws Error(input) if there is none with this model_type.
const Family& family_of(const std::string& model_type);
/// The model types, quoted, for messages: "bert", "bert" and "distilbert".
std::string family_list();

/// Names of a block's layers, without ".weight", and what they compute. The block's index stands between `block` and
/// the rest: "layer.3.query".
struct BlockNames {
  std::string block{};  ///< "layer."
  std::string query, key, value, attention_output, attention_norm, intermediate, output, norm;
  ops::AttentionMask mask{};
  ops::Activation activation = ops::Activation::gelu;
  std::string gate{};  ///< of a feed-forward layer with a gate, else empty
  bool biases = true;
  layers::NormKind norm_kind = layers::NormKind::layer;
  std::function<void(std::int64_t block, layers::AttentionSettings&)> change_attention{};
  std::function<std::string(std::int64_t block)> own_prefix{};  ///< of names that `block` does not begin, or empty

  /// "layer.3."
  std::string prefix(std::int64_t index) const {
    return own_prefix ? own_prefix(index) : block + std::to_string(index) + '.';
  }
};

/// What post-norm encoders share: sizes, dropout, sites, the tie of the decoder. A family adds names and what differs.
ModelPlan encoder_plan(const ModelConfig& config, const EncoderSettings& own, const BlockNames& names,
                       const HeadKind& kind, std::int64_t outputs);
/// Gives a head of tokens and sequences (layers::pretraining_head()) the layers of sequences: a dense layer with tanh
/// and a classifier of these names, with this dropout between them.
void name_pretraining_head(ModelPlan& plan, const std::string& dense, const std::string& classifier, double dropout);
/// Gives the head RoBERTa's names; its head of sequences drops its input too.
void name_roberta_head(ModelPlan& plan, const HeadKind& kind);
/// Puts the norms of encoder_plan()'s blocks before their sublayers: the norm of an edge is that before the sublayer
/// above it, or the final one. names.norm: before the attention, attention_norm: before the feed-forward layer.
void put_norms_before(ModelPlan& plan, const BlockNames& names, const std::string& final_norm);
/// The file's tensor block + tensor + end has the rows of these layers' parameters, `rows` each, one after another.
void add_joined(WeightTable& table, const std::string& block, const std::string& tensor,
                const std::vector<std::string>& layers, std::int64_t rows, const std::string& end = ".weight",
                bool transposed = false);

// What families of encoders share: EncoderSettings, their checks and keys (encoder_settings.cpp).
/// Names of the GELU with the tanh in config.json, the usual one first.
inline constexpr std::array gelu_with_tanh = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"};
inline bool has_gelu_with_tanh(const std::string& activation) {
  return std::find(gelu_with_tanh.begin(), gelu_with_tanh.end(), activation) != gelu_with_tanh.end();
}
/// Adds a sentence for a probability of dropout that cannot be.
void check_probability(const char* key, double value, core::ProblemList& problems);
/// The base of rotary positions: under `key` in older files; in newer ones in rope_parameters, there under `layer_type`
/// unless it is empty. Two values that differ and scaled angles are problems.
void read_rotary_theta(ConfigReader& reader, const char* key, const std::string& layer_type, double& theta);
/// Adds a sentence if rotary positions cannot rotate heads of this size.
void check_rotated_heads(const ModelConfig& config, core::ProblemList& problems);
void check_encoder(const ModelConfig& config, core::ProblemList& problems);
/// The same, of the EncoderSettings among a family's own.
void check_encoder(const ModelConfig& config, const EncoderSettings& own, core::ProblemList& problems);
/// check_encoder() without the activation. `embedding_dropout`: the key of that number.
void check_encoder_numbers(const EncoderSettings& own, core::ProblemList& problems,
                           const char* embedding_dropout = "embd_pdrop");
/// Dropout, epsilon and, last, classifier_dropout.
std::span<const OwnNumber> encoder_numbers();

/// Keys of config.json for sizes and EncoderSettings, under their own names, but that of the classifier's dropout.
void read_encoder_keys(ConfigReader& reader, ModelConfig& config, EncoderSettings& own);
void write_encoder_keys(const ModelConfig& config, const EncoderSettings& own, nlohmann::json& root);
/// With classifier_dropout.
void write_encoder_keys(const ModelConfig& config, nlohmann::json& root);

// What families took over from BERT (bert.cpp): keys of config.json, and the plan of an encoder with BERT's names in
// embeddings and blocks after a base ("bert.").
void read_bert_keys(ConfigReader& reader, ModelConfig& config);
void write_bert_keys(const ModelConfig& config, nlohmann::json& root);
ModelPlan bert_encoder_plan(const std::string& base, const ModelConfig& config, const HeadKind& kind,
                            std::int64_t outputs);

}  // namespace bert_hpc::model
