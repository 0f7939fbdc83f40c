// The simulated step of a run: from a first batch, model and grid to the text that --validate prints.
// All pure but the two reports.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/engine/model_instance.hpp"
#include "app/engine/teacher.hpp"
#include "app/run/run_context.hpp"
#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/batch_plan.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/io/trace.hpp"
#include "bert_hpc/train/simulate.hpp"

namespace bert_hpc::app {

/// A step of this plan, the model's parts holding `balance` sublayers (for as many replicas as the grid has) on
/// this machine. Without a machine, one whose ranks do an operation a second and send in no time: shares of time mean
/// something then, times do not.
train::SimulationInput simulation_input(const config::Config& input, const model::ModelConfig& model,
                                        const model::HeadKind& kind, const comm::GridShape& grid,
                                        const std::vector<std::int64_t>& balance, const core::BatchPlan& plan,
                                        const std::optional<core::MachineDescription>& machine);

/// A page on the step: bubble, memory and traffic of the ranks of each stage, and where the machine is known, times and
/// tokens/s.
std::string simulation_text(const train::SimulationInput& simulated, const train::SimulatedStep& step,
                            bool machine_is_known);

/// What a run simulates of itself.
struct SimulatedRun {
  const data::ShardReader& reader;  ///< of the training data
  const data::BatchLoaderOptions& batches;
  const ModelInstance& model;
  const TeacherPlan* teacher = nullptr;  ///< beside the model; null: none
  // For the time of the whole run, of --validate:
  const data::ShardReader *validation = nullptr, *test = nullptr;
  std::int64_t steps = 0, evaluations = 0;  ///< of the validation data
  double mean_size = 0;                     ///< of the steps' batches
  std::int64_t checkpoint_bytes = 0;
  std::int64_t usual_micro_tokens = 0;  ///< where the input does not say
};

/// Collective. Simulates a step of batch.global on this data. Prints it if the input is validated; writes it to
/// RUN/trace_simulated.json if log.trace asks for it and the machine is known, with the first size of a warm-up of
/// batches. Throws Error(input) for a machine description that cannot be used, Error(files).
void report_simulation(const RunContext& context, const SimulatedRun& run);

/// Collective. After steps were traced (null but on rank 0): the same step with the times of the run's own passes
/// (app/plan/calibrated_simulation.hpp). Prints how it compares; where no machine is known, this is what
/// RUN/trace_simulated.json gets. Throws Error(files).
void report_calibrated_simulation(const RunContext& context, const SimulatedRun& run, const io::Trace* measured);

/// Seconds of a step of batch.global with another input of the same data and layout; operations of the slowest rank
/// where the machine is not known. Throws Error(input) where its machine file does.
double simulated_step_seconds(const RunContext& context, const SimulatedRun& run, const config::Config& input);

/// Steps are short: milliseconds where format_duration() would show nothing of them.
std::string step_duration(double seconds);

}  // namespace bert_hpc::app
