// ModelConfig: what the program needs to know of a model, under the names of BERT's config.json, and the settings that
// its family alone reads. A family whose config.json has other names translates them (src/model/families). Defaults are
// BERT-base (Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2019).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/family_settings.hpp"

namespace bert_hpc::layers {
struct FeatureTable;
}

namespace bert_hpc::model {

inline constexpr std::int64_t no_token = -1;

struct ModelConfig {
  std::string family = "bert";  ///< model_type of config.json
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;
  std::int64_t embedding_size = 0;  ///< columns of the input's embeddings; 0: hidden_size
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t num_key_value_heads = 0;  ///< heads of keys and values, shared by those of queries; 0: one each
  std::int64_t intermediate_size = 3072;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  bool ties_word_embeddings = true;  ///< the decoder of a head that predicts tokens is the word embeddings
  FamilySettings own;                ///< what the family alone reads
  std::vector<std::string> label_names = {"LABEL_0", "LABEL_1"};  ///< id2label in order; one name for regression
  std::string problem_type;                                       ///< empty, or as in Transformers
  std::string head_class;  ///< end of its class in Transformers, "ForMaskedLM"; empty: the file names none
  /// Range of a regression, a key of config.json that only this program knows: predictions are low + (high − low) ·
  /// σ(logit).
  std::optional<std::array<double, 2>> prediction_range;
  std::string embedded_by;  ///< the encoder whose embeddings the model reads instead of token ids; empty: it reads ids
  std::shared_ptr<const layers::FeatureTable> features{};  ///< these embeddings; null in estimates
  bool outputs_sum = false;         ///< mode embed takes an inner block of a pre-norm model: the stream before its norm
  std::int64_t projected_size = 0;  ///< columns to which a training projects hidden states; 0: it does not
  std::int64_t pad_token_id = 0;    ///< no_token: the model has none
  std::optional<std::int64_t> bos_token_id, eos_token_id, cls_token_id, sep_token_id, mask_token_id;

  std::int64_t head_dim() const { return hidden_size / num_attention_heads; }
  std::int64_t key_value_heads() const { return num_key_value_heads > 0 ? num_key_value_heads : num_attention_heads; }
  std::int64_t num_labels() const { return static_cast<std::int64_t>(label_names.size()); }
};

/// Adds one sentence to `problems` for each value that cannot be: sizes below one or absurdly large, hidden_size not a
/// multiple of num_attention_heads, token ids outside the vocabulary, …. The family checks its own settings
/// (check_model() in hf_config.hpp).
void check_sizes(const ModelConfig& config, core::ProblemList& problems);

/// "LABEL_0", "LABEL_1", …: the names Transformers gives to labels without names.
std::vector<std::string> default_label_names(std::int64_t count);

}  // namespace bert_hpc::model
