#include "app/plan/run_estimate.hpp"

#include <algorithm>
#include <cmath>

#include "app/plan/checkpoint_interval.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

constexpr double usual_walltime = 24 * 3600;  // seconds

double walltime(const RunPlan& plan) {
  return plan.max_walltime.value_or(usual_walltime);
}

/// Time of a job available to the run: a job stops early enough for a checkpoint (app/run/wall_time.hpp).
double usable(const RunPlan& plan) {
  const double margin = 2 * plan.step_seconds + 1.5 * plan.writing_seconds + 2;
  return walltime(plan) - std::min(walltime(plan) / 2, margin);
}

/// "1,234", "12.5", "0.25".
std::string hours_text(double hours) {
  return hours >= 100 ? core::with_commas(std::llround(hours)) : core::format_number(hours, 3);
}

/// ", 4 evaluations in 1 min 40 s"; "" if there are none.
std::string part(std::int64_t count, const char* what, double seconds) {
  return count == 0 ? "" : ", " + core::counted(count, what) + " in " + core::format_duration(seconds);
}

/// ", of which the run uses 4"; "" if it uses all.
std::string unused_text(const RunPlan& plan, const RunEstimate& run) {
  if (run.nodes * plan.node_ranks == plan.ranks) return {};
  return ", of which the run uses " + core::with_commas(plan.ranks) + "; run.node_ranks sets the size of a node";
}

std::string line(const char* name, const std::string& text) {
  return "  " + std::string(name) + std::string(12 - std::string(name).size(), ' ') + text + '\n';
}

}  // namespace

RunEstimate estimate_run(const RunPlan& plan) {
  RunEstimate run;
  const double computing = static_cast<double>(plan.steps) * plan.step_seconds + plan.evaluation_seconds;
  if (plan.every_steps) run.checkpoints += plan.steps / *plan.every_steps;
  std::optional<double> minutes = plan.every_minutes;
  if (!plan.every_steps && !minutes) minutes = checkpoint_interval(computing, plan.writing_seconds) / 60;
  if (minutes) run.checkpoints += std::llround(std::min(1e15, std::floor(computing / (60 * *minutes))));
  run.checkpoints = std::min(run.checkpoints, plan.steps);
  run.checkpoint_seconds = static_cast<double>(run.checkpoints) * plan.snapshot_seconds;
  if (run.checkpoints > 0) run.checkpoint_seconds += plan.writing_seconds;  // the run waits for the last one
  run.seconds = computing + run.checkpoint_seconds;
  run.nodes = (plan.ranks + plan.node_ranks - 1) / plan.node_ranks;
  run.node_hours = static_cast<double>(run.nodes) * run.seconds / 3600;
  if (plan.gpu) run.gpu_hours = static_cast<double>(run.nodes * plan.node_ranks) * run.seconds / 3600;
  run.restarts = std::llround(std::min(1e15, std::max(1.0, std::ceil(run.seconds / usable(plan))))) - 1;
  return run;
}

std::string run_estimate_text(const RunPlan& plan, const RunEstimate& run) {
  const double step_seconds = static_cast<double>(plan.steps) * plan.step_seconds;
  std::string text = line("total time", core::format_duration(run.seconds) + ": " + core::counted(plan.steps, "step") +
                                            " in " + core::format_duration(step_seconds) +
                                            part(plan.evaluations, "evaluation", plan.evaluation_seconds) +
                                            part(run.checkpoints, "checkpoint", run.checkpoint_seconds));
  text += line("cost", hours_text(run.node_hours) + " node-hours" +
                           (plan.gpu ? ", " + hours_text(run.gpu_hours) + " GPU-hours" : "") + " (" +
                           core::counted(run.nodes, "whole node") + " of " +
                           core::counted(plan.node_ranks, plan.gpu ? "GPU" : "rank") + unused_text(plan, run) + ')');
  const std::string limit = core::format_duration(walltime(plan));
  text += line("restarts", core::with_commas(run.restarts) + (plan.max_walltime
                                                                  ? " with run.max_walltime = " + limit
                                                                  : " in jobs of 24 h (run.max_walltime is not set)"));
  return text;
}

}  // namespace bert_hpc::app
