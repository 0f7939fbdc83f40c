// Data sets for plans: of a run whose shards do not exist yet (--validate --tokens N --mean-length L), or whose shards
// hold fewer sequences than the planned ranks need.
#pragma once

#include <string>
#include <vector>

#include "app/engine/data_sets.hpp"
#include "app/run/run_context.hpp"

namespace bert_hpc::app {

/// Lengths of the sequences of a plan, tokens: spread evenly from `shortest` to `longest`, whose mean is the plan's
/// mean length, in steps that do not follow the order of the sequences.
struct PlannedLengths {
  std::int64_t sequences = 0;
  std::int32_t shortest = 1, longest = 1;

  /// (sequences)
  std::vector<std::int32_t> lengths() const;
};

/// `tokens` in sequences of `mean_length`, none longer than `most` (the model's max_position_embeddings). The range is
/// as wide as the limits 1 and `most` allow. Throws Error(input) where mean_length > most, or for more than 2²⁷
/// sequences.
PlannedLengths planned_lengths(std::int64_t tokens, double mean_length, std::int64_t most);

/// Data sets of the invocation's --tokens and --mean-length: training data, and an eighth as many tokens for validation
/// and for test where the input names any (as bert_hpc_prep splits by default). Labels and vocabulary are the model's.
/// Throws Error(input).
void plan_data(DataSets& sets, const config::Config& input, const model::ModelConfig& stated, std::int64_t tokens,
               double mean_length);

/// Collective. Opens the data sets of the input, or plans those of --tokens and --mean-length; for --validate, extended
/// to the replicas of the grid, with a warning. Throws as open_data() and plan_data().
void open_or_plan_data(DataSets& sets, const RunContext& context, const model::ModelConfig& stated);

/// What plan_data() assumes, one line.
std::string planned_data_text(const DataSets& sets);

/// Replaces data sets with fewer sequences than `replicas` by planned ones that repeat these sequences `global` times
/// or more. Returns one warning for each; for --validate only.
std::vector<std::string> extend_to_replicas(DataSets& sets, int replicas, std::int64_t global);

}  // namespace bert_hpc::app
