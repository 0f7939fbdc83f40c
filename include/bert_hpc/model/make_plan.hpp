// What the family of a configuration makes of it, and what else the program asks the family.
#pragma once

#include <cstdint>
#include <string>

#include "bert_hpc/model/model_config.hpp"
#include "bert_hpc/model/model_plan.hpp"

namespace bert_hpc::model {

/// By the family of the configuration. `outputs`: labels, unused if the outputs are the vocabulary. `storage`: of
/// activations.
ModelPlan make_plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs,
                    core::DataType storage = core::DataType::fp32);

/// Sets the number of rows whose logits a head over a vocabulary computes at once, on GPUs or on CPUs. make_plan() sets
/// that of this build.
void limit_logits(ModelPlan& plan, bool on_gpus);

/// Whether a token of this family's models attends to itself and those before it alone.
bool is_causal(const ModelConfig& config);
/// Whether the number of rows in the table of positions depends on the padding token's id, as in RoBERTa.
bool positions_after_padding(const ModelConfig& config);
/// Whether the embeddings of a sequence depend on which of its tokens are mask_token_id, as in ESM.
bool reads_mask_tokens(const ModelConfig& config);
/// Whether several blocks have the same parameters (ModelPlan::shares_blocks).
bool shares_blocks(const ModelConfig& config);

/// Names of the word embeddings and of their copy for the decoder of masked language modelling.
std::string word_embeddings_name(const ModelConfig& config);
std::string decoder_name(const ModelConfig& config);

}  // namespace bert_hpc::model
