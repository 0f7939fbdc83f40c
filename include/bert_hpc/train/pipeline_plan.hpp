// Plans a model as a pipeline: how many sublayers each stage gets, and into how many micro-batches a step is divided,
// so that the step takes the least time. The two depend on each other: fewer micro-batches mean a longer bubble, more
// of them mean passes dominated by reading weights, and a partition that suits long passes need not suit short ones. So
// the planner tries every allowed number of micro-batches with its own best partition and plays its schedule on a
// timeline (train/timeline.hpp). Pure; the times of passes are modelled (model/model_costs.hpp) or measured.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/core/machine_description.hpp"
#include "bert_hpc/model/model_costs.hpp"
#include "bert_hpc/train/schedule.hpp"

namespace bert_hpc::train {

/// Seconds of a pass as a linear function of the micro-batch's tokens.
struct PassSeconds {
  double fixed = 0, per_token = 0;

  double of(double tokens) const { return fixed + per_token * tokens; }
};

/// The line through two measurements, or through zero and their mean if the two points are too close. Neither
/// coefficient is negative.
PassSeconds fit_line(double tokens_a, double seconds_a, double tokens_b, double seconds_b);

struct PieceSeconds {
  PassSeconds forward, backward_input, backward_weight;

  double of(double tokens) const { return forward.of(tokens) + backward_input.of(tokens) + backward_weight.of(tokens); }
};

/// Times of the parts of a model.
struct ModelSeconds {
  PieceSeconds embeddings;
  std::vector<PieceSeconds> sublayers{};  ///< (sublayers); the last one's includes the head

  /// Forward and backward costs for a number of tokens.
  model::ModelCosts of(double tokens) const;
};

/// From modelled work. `length`: of a typical sequence; `head_share`: share of the tokens that the head reads.
ModelSeconds modelled_seconds(const model::ModelPlan& plan, double length, double head_share, int tensor,
                              const core::MachineDescription& machine);

struct PipelineQuestion {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int stages = 2, virtual_stages = 1;
  std::int64_t selects_from = 0;      ///< as in model::ModelPlan
  std::vector<ModelSeconds> seconds;  ///< (stages): on the ranks of each stage
  double tokens = 0;                  ///< of one replica's step
  std::vector<int> micro_batches;     ///< candidates
  std::vector<std::int64_t> balance;  ///< sublayers of each part if fixed; empty: the planner chooses
  double head_share = 1;              ///< share of the tokens that the head reads
  double message_per_token = 0;       ///< transfer time in seconds of one row of activations
  double latency = 0;                 ///< additional seconds per message
};

struct PipelinePlan {
  std::vector<std::int64_t> balance;  ///< sublayers of each of the stages·virtual_stages parts
  int micro_batches = 1;
  double seconds = 0;  ///< of the passes of a step
  double bubble = 0;   ///< share of that time in which a stage computes nothing
};

/// The sublayer that follows a message of stage `from`, given the number of sublayers of each part.
std::int64_t sublayer_after(std::span<const std::int64_t> balance, int stages, int from, const Message& message);

/// The fastest plan; among equals, the first in the order of `micro_batches`.
PipelinePlan plan_pipeline(const PipelineQuestion& question);

}  // namespace bert_hpc::train
