// The measured timeline of a few steps: spans of this rank's timers, gathered from all ranks into one trace
// (io/trace.hpp). The first steps are left out, as caches and threads warm up in them. Inside a traced step a section
// costs some ten nanoseconds more and nothing is allocated; spans become events between the steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/core/timers.hpp"
#include "bert_hpc/io/trace.hpp"
#include "bert_hpc/train/timeline.hpp"

namespace bert_hpc::app {

class StepTrace {
 public:
  /// Collective over `world` where `on`: clocks are compared once. Both must outlive the trace. A step has at most
  /// `max_spans` measurements; more are left out.
  StepTrace(bool on, std::int64_t total_steps, comm::Communicator& world, core::Timers& timers,
            std::size_t max_spans = 4096);

  /// Around step number `step` (from 0).
  void begin(std::int64_t step);
  void end(std::int64_t step);

  /// Records of what a pipeline executes (train::Pipeline::record): its computations give the traced passes
  /// their micro-batches. Without it passes are numbered as they come.
  std::vector<train::TimedInstruction>& instructions() { return instructions_; }

  bool pending() const { return on_ && !written_ && traced_ > 0; }  ///< something is there to be written
  bool complete() const { return on_ && !written_ && traced_ == wanted_; }

  /// Collective over the world. Rank 0 writes what was traced, once, and returns it; nothing if there is nothing new
  /// and on other ranks. Throws Error(files) on rank 0.
  std::optional<io::Trace> write(const std::string& path, const comm::GridShape& grid, const std::string& schedule);

 private:
  static constexpr std::int64_t warm_up_steps = 2, most_steps = 5;

  bool on_ = false, written_ = false, tracing_ = false;
  std::int64_t first_ = 0, wanted_ = 0, traced_ = 0;
  comm::Communicator& world_;
  core::Timers& timers_;
  core::Timers::Clock::time_point zero_;  // the same instant on all ranks
  std::vector<core::Timers::Span> spans_;
  std::vector<train::TimedInstruction> instructions_;
  std::vector<io::TraceEvent> events_;  // of all traced steps
};

/// The events of one step: spans in the order of their ends, `instructions` as the pipeline executed them. Pure.
std::vector<io::TraceEvent> step_events(const std::vector<core::Timers::Span>& spans,
                                        const std::vector<train::TimedInstruction>& instructions,
                                        core::Timers::Clock::time_point zero, int rank, std::int64_t step);

}  // namespace bert_hpc::app
