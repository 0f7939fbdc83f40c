// EncoderSettings: what families of encoders have beside their sizes, under the names of BERT's config.json; a family
// whose config.json has other names translates them (src/model/families).
#pragma once

#include <optional>
#include <string>

#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::model {

/// Defaults are BERT's.
struct EncoderSettings {
  double hidden_dropout_prob = 0.1;
  std::optional<double> embedding_dropout{};  ///< of the embeddings: hidden_dropout_prob if unset
  double attention_probs_dropout_prob = 0.1;
  std::optional<double> classifier_dropout{};  ///< hidden_dropout_prob if unset
  double span_dropout = 0;                     ///< before the scores of answers' ends
  double layer_norm_eps = 1e-12;
  std::string hidden_act = "gelu";  ///< as config.json names it
  double rotary_theta = 0;          ///< base of rotary positions; 0 if the family has none

  double head_dropout() const { return classifier_dropout.value_or(hidden_dropout_prob); }
};

inline const EncoderSettings& encoder_settings(const ModelConfig& config) {
  return config.own.as<EncoderSettings>();
}
inline EncoderSettings& encoder_settings(ModelConfig& config) {
  return config.own.change<EncoderSettings>();
}

}  // namespace bert_hpc::model
