// Before a run: how the model is cut into the parts of a pipeline, and into how many micro-batches a step. What the
// input leaves open is decided from counted work; with balance = "measured" the cut from passes that are timed on all
// ranks. Ranks come to the same decision, as they decide from the same numbers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/run/run_context.hpp"
#include "bert_hpc/comm/process_groups.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/model/partition.hpp"

namespace bert_hpc::app {

/// Least tokens of a micro-batch whose size the program chooses.
inline constexpr std::int64_t least_micro_tokens = 4096;

struct PipelineSetup {
  std::vector<std::int64_t> balance;  ///< sublayers of each part
  std::int64_t micro_batches = 0;     ///< of a replica, where the input leaves them open; 0: it does not
  std::vector<std::pair<std::string, std::string>> lines;  ///< for the banner
};

/// Sublayers of each stage without measured passes: [parallel] balance, or by costs, for a model that this run trains
/// or only applies. Throws Error(input).
std::vector<std::int64_t> balance_by_cost(const config::Config& input, const model::ModelConfig& config,
                                          const model::HeadKind& kind, bool trains, int pipeline, double mean_length,
                                          double mean_rows);

/// Numbers of micro-batches that are worth a try: from one a stage on, of no more than `most_tokens` each. Pure.
std::vector<int> micro_batch_candidates(int stages, std::int64_t sequences, double tokens, double most_tokens);

/// Pipeline of a training. Collective over all ranks if passes are measured, which needs the groups; without them
/// (null, in an estimate) everything is counted. `usual`: most tokens of a micro-batch where the input does not say.
/// Throws Error(input).
PipelineSetup set_up_pipeline(const RunContext& context, const model::ModelConfig& config, const model::HeadKind& kind,
                              data::ShardReader& reader, const comm::ProcessGroups* groups, std::int64_t usual);

}  // namespace bert_hpc::app
