// What every mode gets: the command line, the input, the ranks, and how this start treats the run's directory.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bert_hpc/app/run/failure_mark.hpp"
#include "bert_hpc/app/run/run_directory.hpp"
#include "bert_hpc/app/run/signal_listener.hpp"
#include "bert_hpc/app/run/stop_request.hpp"
#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/activity.hpp"
#include "bert_hpc/core/device_choice.hpp"
#include "bert_hpc/core/log.hpp"

namespace bert_hpc::app {

struct Invocation {
  std::string input_path;
  std::vector<std::string> overrides;  ///< of --set
  bool validate = false;               ///< check everything, print the plan, compute nothing
  bool overwrite = false;              ///< results in the run directory are replaced
  int validate_ranks = 0;              ///< for how many ranks; 0: as many as there are
  std::int64_t planned_tokens = 0;     ///< plan without shards: tokens of the training data; 0: the input's shards
  double planned_mean_length = 0;      ///< of their sequences
};

/// What every mode is given.
struct RunContext {
  const config::Config& input;
  const Invocation& invocation;
  comm::Communicator& world;
  comm::GridShape grid;  ///< of ranks()
  int threads;           ///< of this rank's kernels
  core::DeviceChoice device;
  core::Log& log;  ///< silent but on rank 0
  std::chrono::steady_clock::time_point begin;
  std::int64_t start_memory;      ///< resident when the run began, bytes; 0: unknown
  core::Activity& activity;       ///< what this rank is at
  FailureMark& failure;           ///< left in the run's directory by a rank that ends all
  const ResolvedInput& resolved;  ///< the input's text
  StopRequest& requests;          ///< what this rank was asked
  SignalListener& listener;       ///< reacts to signals at once

  /// Ranks that the run is, or would be, made for.
  int ranks() const { return invocation.validate_ranks > 0 ? invocation.validate_ranks : world.size(); }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }
};

/// On rank 0. How this start begins, by what the run's directory holds; the same until begin_run() or note_start().
Beginning beginning_of(const RunContext& context);
/// What begin_run() and note_start() note of this start.
RunStart start_of(const config::Config& input);

/// Collective. Before anything of this start is written: where a rank was asked to stop, all leave. Throws Stop.
void leave_if_asked(const RunContext& context);

}  // namespace bert_hpc::app
