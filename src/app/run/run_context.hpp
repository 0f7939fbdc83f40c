// The arguments of every mode: command line, input, ranks, and how this start treats the run's directory.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "app/run/failure_mark.hpp"
#include "app/run/run_directory.hpp"
#include "app/run/signal_listener.hpp"
#include "app/run/stop_request.hpp"
#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/activity.hpp"
#include "bert_hpc/core/device_choice.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/log.hpp"
#include "bert_hpc/core/machine_description.hpp"

namespace bert_hpc::app {

struct Invocation {
  std::string input_path;
  std::vector<std::string> overrides;  ///< of --set
  bool validate = false;               ///< check everything, print the plan, compute nothing
  bool overwrite = false;              ///< replace results in the run directory
  int validate_ranks = 0;              ///< number of ranks to plan for; 0: the actual number
  std::int64_t planned_tokens = 0;     ///< plan without shards: tokens of the training data; 0: use the input's shards
  double planned_mean_length = 0;      ///< mean length of their sequences
};

/// What most functions of a run need.
struct RunBasics {
  const config::Config& input;
  comm::Communicator& world;
  core::Log& log;  ///< silent except on rank 0
};

/// The context of every mode.
struct RunContext : RunBasics {
  const Invocation& invocation;
  comm::GridShape grid;  ///< of ranks()
  int threads;           ///< of this rank's kernels
  core::DeviceChoice device;
  std::chrono::steady_clock::time_point begin;
  std::int64_t start_memory;      ///< resident when the run began, bytes; 0: unknown
  core::Activity& activity;       ///< current activity of this rank
  FailureMark& failure;           ///< written to the run's directory by a rank that fails alone
  const ResolvedInput& resolved;  ///< resolved text of the input
  StopRequest& requests;          ///< requests that this rank received
  SignalListener& listener;       ///< reacts to signals at once
  /// Under --validate, what [run] machine describes. A login node or a laptop plans a training on GPUs.
  std::optional<core::MachineDescription> planned_machine{};

  /// Number of ranks that the run is (or would be) made for.
  int ranks() const { return invocation.validate_ranks > 0 ? invocation.validate_ranks : world.size(); }
  /// Whether those ranks compute on GPUs: as the planned machine does, else as this build.
  bool on_gpus() const { return planned_machine ? planned_machine->gpu : core::is_gpu_build(); }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }
};

/// On rank 0: how this start begins, according to the run's directory. The result is the same until begin_run() or
/// note_start() is called.
Beginning beginning_of(const RunContext& context);
/// The facts about this start that begin_run() and note_start() record.
RunStart start_of(const config::Config& input);

/// Collective. The stop_reason() of all ranks: a launcher's signal may reach the others long before rank 0.
std::string agreed_stop_reason(const RunContext& context);

/// Collective. Call it before this start writes anything: if any rank has a stop request, all ranks leave. Throws Stop.
void leave_if_asked(const RunContext& context);

}  // namespace bert_hpc::app
