// How to run a model as a pipeline: how many sublayers each stage gets and into how many micro-batches a step is
// cut, so that the step takes the least time. Both depend on each other: fewer micro-batches mean a longer bubble, more
// of them mean passes that spend their time on reading weights, and a cut that suits long passes need not suit short
// ones. So every allowed number is tried with its own best cut, and its schedule is played against the clock
// (train/timeline.hpp). Pure; the times of passes are counted (train/step_costs.hpp) or measured.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/core/machine_description.hpp"
#include "bert_hpc/model/partition.hpp"
#include "bert_hpc/train/schedule.hpp"
#include "bert_hpc/train/step_costs.hpp"

namespace bert_hpc::train {

/// Seconds of a pass over a micro-batch of so many tokens: a line.
struct PassSeconds {
  double fixed = 0, per_token = 0;

  double of(double tokens) const { return fixed + per_token * tokens; }
};

/// The line through two measurements, or through zero and their mean where they do not tell two points apart. Neither
/// of its numbers is negative.
PassSeconds fit_line(double tokens_a, double seconds_a, double tokens_b, double seconds_b);

struct PieceSeconds {
  PassSeconds forward, backward_input, backward_weight;

  double of(double tokens) const { return forward.of(tokens) + backward_input.of(tokens) + backward_weight.of(tokens); }
};

/// The pieces that a model is cut into. The sublayers of the last block, which computes only the rows that the head
/// reads, are pieces of their own, its feed-forward with the head.
struct ModelSeconds {
  PieceSeconds embeddings, attention, feed_forward, last_attention, last;

  /// What they cost for so many tokens: both passes.
  model::ModelCosts of(double tokens) const;
};

/// From counted work. `length`: of a typical sequence; `head_share`: rows that the head reads, of all tokens.
ModelSeconds modelled_seconds(const ModelShape& model, double length, double head_share, int tensor,
                              const core::MachineDescription& machine);

struct PipelineQuestion {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int stages = 2, virtual_stages = 1;
  std::int64_t sublayers = 4;         ///< of the model's blocks
  std::vector<ModelSeconds> seconds;  ///< (stages): on the ranks of each
  double tokens = 0;                  ///< of a replica's step
  std::vector<int> micro_batches;     ///< the numbers to choose from
  std::vector<std::int64_t> balance;  ///< sublayers of each part where they are given; empty: they are chosen
  double head_share = 1;              ///< rows that the head reads, of all tokens
  double message_per_token = 0;       ///< seconds that the activations of a row are on their way
  double latency = 0;                 ///< seconds more for each message
};

struct PipelinePlan {
  std::vector<std::int64_t> balance;  ///< sublayers of each of the stages·virtual_stages parts
  int micro_batches = 1;
  double seconds = 0;  ///< of the passes of a step
  double bubble = 0;   ///< share of that time in which a stage computes nothing
};

/// The sublayer that follows a message of stage `from`, where parts hold these numbers of sublayers.
std::int64_t sublayer_after(std::span<const std::int64_t> balance, int stages, int from, const Message& message);

/// The quickest; of equals, the first in the order of `micro_batches`.
PipelinePlan plan_pipeline(const PipelineQuestion& question);

}  // namespace bert_hpc::train
