// Estimates time and cost of a whole training from its simulated step: steps, evaluations, checkpoints; node-hours;
// number of jobs if there is a time limit. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bert_hpc::app {

struct RunPlan {
  std::int64_t steps = 0, evaluations = 0;
  double step_seconds = 0;
  double evaluation_seconds = 0;            ///< of all evaluations together, including that of the test data
  std::optional<std::int64_t> every_steps;  ///< between checkpoints
  std::optional<double> every_minutes;
  double snapshot_seconds = 0;         ///< for which a checkpoint blocks the steps; writing runs in the background
  double writing_seconds = 0;          ///< of one checkpoint
  std::optional<double> max_walltime;  ///< of a job, seconds; default: one day
  std::int64_t ranks = 1, node_ranks = 1;
  bool gpu = false;  ///< each rank uses a GPU
};

struct RunEstimate {
  double seconds = 0;             ///< of the whole run, excluding the start-up of its jobs
  double checkpoint_seconds = 0;  ///< included in seconds
  std::int64_t checkpoints = 0, nodes = 0, restarts = 0;
  double node_hours = 0, gpu_hours = 0;  ///< whole nodes count
};

RunEstimate estimate_run(const RunPlan& plan);

/// Lines "  name        text\n" for the report of --validate.
std::string run_estimate_text(const RunPlan& plan, const RunEstimate& run);

}  // namespace bert_hpc::app
