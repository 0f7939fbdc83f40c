// Hidden states and attention of a student and its teacher that [distill] compares: which of them, and the cut of the
// teacher into stages of a pipeline that puts each pair on one rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/model/model_config.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "bert_hpc/train/attention_loss.hpp"
#include "bert_hpc/train/hidden_loss.hpp"

namespace bert_hpc::app {

/// Whether a loss between hidden states is among those of a distillation.
bool compares_states(const config::Config& input);

/// The teacher's block, from 0, for each of the student's, as evenly spaced as can be; the last one for the last one
/// (TinyBERT: block n reads block n · teacher / student, both from 1; rounded up here).
std::vector<std::int64_t> even_layer_map(std::int64_t student, std::int64_t teacher);

/// [distill] layer_map, or the even one. Throws Error(input) if it does not fit the models.
std::vector<std::int64_t> layer_map_of(const config::Config& input, std::int64_t student, std::int64_t teacher);

/// Pairs of the losses between hidden states, ascending; empty without such losses. Throws Error(input) if the models
/// do not fit each other.
std::vector<train::StatePair> state_pairs(const config::Config& input, const model::ModelPlan& student,
                                          const model::ModelPlan& teacher);

/// Whether a loss between attention scores is among those of a distillation.
bool compares_attention(const config::Config& input);

/// Pairs of blocks of the loss between attention scores, ascending; empty without it. Throws Error(input) if the models
/// do not fit each other.
std::vector<train::AttentionPair> attention_pairs(const config::Config& input, const model::ModelConfig& student,
                                                  const model::ModelConfig& teacher);

/// The edges behind the compared attention sublayers, so that aligned_balance() puts both of a pair on one rank.
std::vector<train::StatePair> edges_behind(const std::vector<train::AttentionPair>& pairs,
                                           const model::ModelPlan& student, const model::ModelPlan& teacher);

/// Whether the student's hidden states are projected to the columns of the teacher's.
bool projects_states(const config::Config& input, const model::ModelPlan& student, const model::ModelPlan& teacher);

/// Adds to the student's plan the projections of hidden states to `columns` columns.
void add_projections(const config::Config& input, std::int64_t columns, model::ModelPlan& plan);

/// Makes the last block compute all tokens, of which the head still reads a selection.
void compute_all_tokens(model::ModelPlan& plan);

/// Whether the state behind the last block is among these edges of a model.
bool reads_last_state(std::span<const std::int64_t> edges, const model::ModelPlan& plan);

/// The cut of the teacher nearest to `teacher`, in sublayers of each part, with each pair's states in parts of the same
/// number. `student`: that of the student; as many parts. Throws Error(input) if there is none.
std::vector<std::int64_t> aligned_balance(std::span<const train::StatePair> pairs,
                                          std::span<const std::int64_t> student, std::span<const std::int64_t> teacher);

/// Line of the banner; "" without losses between hidden states or attention scores.
std::string states_text(const config::Config& input, std::int64_t student, std::int64_t teacher);

}  // namespace bert_hpc::app
