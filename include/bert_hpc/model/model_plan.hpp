// A model as a list of its layers: what a family makes of a configuration, and all that the rest of the program reads
// to list parameters, to build layers, and to know what they cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/layers/sublayer.hpp"
#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::model {

using HeadKind = layers::HeadKind;

struct ModelPlan {
  layers::EmbeddingsSettings embeddings;
  std::vector<layers::SublayerSettings> sublayers;  ///< in the order of a forward pass
  layers::HeadSettings head;
};

/// By the family of the configuration. `outputs`: labels, unused where the outputs are the vocabulary. Throws
/// Error(input) where the plan holds what no layer computes.
ModelPlan make_plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs);

/// Adds one sentence to `problems` for each choice in the plan that no layer computes.
void check(const ModelPlan& plan, core::ProblemList& problems);

/// Names of the word embeddings and of their copy for the decoder of masked language modelling.
std::string word_embeddings_name(const ModelConfig& config);
std::string decoder_name(const ModelConfig& config);

}  // namespace bert_hpc::model
