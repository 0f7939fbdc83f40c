// The parameters of a model and their initial values, with the names and shapes of Hugging Face's classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/model/model_config.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "bert_hpc/model/partition.hpp"

namespace bert_hpc::model {

/// Appends the parameters of the projection at an edge, if there is one.
void declare_projection(const ModelPlan& plan, std::int64_t edge, std::vector<core::ParameterSpec>& specs);

/// The head's settings where it stands on this range: whether it declares a decoder of its own.
layers::HeadSettings head_of(const ModelPlan& plan, const ModelRange& range);

/// Every parameter of a range of the model, or what a rank of a tensor group holds of it, in the order of a forward
/// pass. `outputs`: labels, unused if the outputs are the vocabulary.
std::vector<core::ParameterSpec> model_parameters(const ModelPlan& plan, const ModelRange& range,
                                                  const layers::TensorRank& tensor_rank = {});
std::vector<core::ParameterSpec> model_parameters(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs,
                                                  const ModelRange& range, const layers::TensorRank& tensor_rank = {});
/// Parameters of the whole model.
std::vector<core::ParameterSpec> model_parameters(const ModelConfig& config, const HeadKind& kind,
                                                  std::int64_t outputs);

/// States of each of a model's parts, in the order of a forward pass, whether it needs the gradient at its input.
void set_sends_gradient(std::vector<ModelRange>& parts, const ModelPlan& plan);

/// Fresh parameters as Hugging Face initialises them: normal(0, initializer_range) weights, zero biases, layer norms at
/// one, the padding row of the word embeddings at zero. A value depends on (seed, parameter's name, element of the
/// whole parameter) alone; a copy has the values of what it is a copy of.
void initialize_parameters(core::ParameterStore& parameters, const ModelConfig& config, std::uint64_t seed,
                           const std::vector<std::string>& only = {});

}  // namespace bert_hpc::model
