// Time and cost of a whole training from its simulated step: steps, evaluations, checkpoints; node-hours; how often a
// job with a time limit has to be submitted again. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bert_hpc::app {

struct RunPlan {
  std::int64_t steps = 0, evaluations = 0;
  double step_seconds = 0;
  double evaluation_seconds = 0;            ///< of all evaluations together, that of the test data included
  std::optional<std::int64_t> every_steps;  ///< checkpoints
  std::optional<double> every_minutes;
  double snapshot_seconds = 0;         ///< that a checkpoint holds the steps up; it is written in the background
  double writing_seconds = 0;          ///< of one checkpoint
  std::optional<double> max_walltime;  ///< of a job, seconds; none: a day is assumed
  std::int64_t ranks = 1, node_ranks = 1;
  bool gpu = false;  ///< a rank is a GPU
};

struct RunEstimate {
  double seconds = 0;             ///< of the whole run, without the start-up of its jobs
  double checkpoint_seconds = 0;  ///< part of it
  std::int64_t checkpoints = 0, nodes = 0, restarts = 0;
  double node_hours = 0, gpu_hours = 0;  ///< whole nodes are counted
};

RunEstimate estimate_run(const RunPlan& plan);

/// Lines "  name        text\n" for the page of --validate.
std::string run_estimate_text(const RunPlan& plan, const RunEstimate& run);

}  // namespace bert_hpc::app
