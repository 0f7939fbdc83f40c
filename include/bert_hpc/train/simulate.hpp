// Simulates one training step on a grid of ranks: the pipeline's timeline, the sums over replicas, the update; from the
// model's costs (model/model_costs.hpp) and a machine's rates, or from measured pass times. For planning: the size of
// the bubble, the traffic on each link, the memory, the tokens per second. Pure and fast, so a thousand ranks can be
// planned on a laptop.
//
// Collectives are modelled as rings (Thakur et al. 2005): in a reduce-scatter, n ranks send (n - 1)/n of the data in n
// - 1 steps, and as much in an all-gather. Sums of gradients overlap with the last micro-batch's backward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/core/machine_description.hpp"
#include "bert_hpc/model/model_costs.hpp"
#include "bert_hpc/train/timeline.hpp"

namespace bert_hpc::train {

/// Measured seconds of the phases after the passes.
struct TailSeconds {
  double sums = 0, update = 0, share = 0;
};

struct SimulationInput {
  model::ModelPlan model;
  comm::GridShape grid;
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int virtual_stages = 1;
  std::vector<std::int64_t> balance;              ///< sublayers of each of the pipeline·virtual_stages parts
  std::vector<layers::BatchShape> micro_batches;  ///< of one replica, the one with the most work
  double step_tokens = 0;                         ///< of all replicas
  int zero = 0;                                   ///< which of optimizer states and gradients are sharded over replicas
  double state_bytes = 8;                         ///< of a parameter's optimizer states
  core::MachineDescription machine;
  /// Measured seconds of a compute instruction; null: computed from costs and rates.
  std::function<double(int stage, const Instruction&)> measured;
  /// Measured seconds of the sums (after the last pass), the update and the sharing.
  std::optional<TailSeconds> measured_tail;
};

/// Memory and traffic of one rank of a stage in a step, bytes.
struct StageLoad {
  double parameters = 0;        ///< number
  double trained = 0;           ///< of these, those that are trained
  double state_bytes = 0;       ///< values, gradients, optimizer states
  double activation_bytes = 0;  ///< of the micro-batches in flight
  double sent_pipeline = 0;     ///< activations and gradients to both neighbours
  double sent_data = 0;         ///< sums of gradients, new parameters
  double sent_tensor = 0;       ///< within the blocks
  bool pipeline_leaves_node = false, data_leaves_node = false, tensor_leaves_node = false;

  double memory() const { return state_bytes + activation_bytes; }
};

/// Phases after the pipeline on a stage, seconds since the step's begin.
struct StageTail {
  double sums_end = 0;                      ///< gradients are summed over the replicas
  double update_begin = 0, update_end = 0;  ///< begins when all stages know the gradient's norm
  double share_end = 0;                     ///< all ranks have the new parameters
};

struct SimulatedStep {
  Timeline pipeline;
  std::vector<StageTail> tails;  ///< (stages)
  std::vector<StageLoad> loads;  ///< (stages)
  double seconds = 0;            ///< of the whole step
  double bubble = 0;             ///< share of the pipeline's time in which a stage waits
  double exposed = 0;            ///< share of the step in which replicas sum and share without computing
  double tokens_per_second = 0;
};

/// Throws Error(input) if the schedule does not support the virtual stages; the balance must have the right length.
SimulatedStep simulate_step(const SimulationInput& input);

/// Seconds of the forward passes of the step's micro-batches without backward passes: of a model that is only applied.
double forward_seconds(const SimulationInput& input);

/// Seconds of an evaluation of `all` sequences of a data set in micro-batches of at most `micro_tokens` tokens: only
/// forward passes, pipelined.
double evaluation_seconds(const SimulationInput& input, const layers::BatchShape& all, double micro_tokens);

}  // namespace bert_hpc::train
