// Simulates pipeline schedules on a timeline: given the duration of every pass and message, computes when each stage
// does what and how long it waits. Pure. The durations may come from a model of the machine (train/simulate.hpp) or
// from measurements.
#pragma once

#include <functional>
#include <vector>

#include "bert_hpc/train/schedule.hpp"

namespace bert_hpc::train {

/// Durations in seconds. A send costs the sender no time; messages from one stage to another are sequential.
struct PipelineDurations {
  std::function<double(int stage, const Instruction&)> compute;  ///< forward, backward, …
  /// How long a message occupies the link between two stages, and the latency on top; null: no time.
  std::function<double(int from, int to, const Message&)> transfer;
  std::function<double(int from, int to)> latency;
};

struct TimedInstruction {
  Instruction instruction;
  double begin = 0, end = 0;  ///< seconds since the step's begin; for a receive, the waiting time
};

struct Timeline {
  std::vector<std::vector<TimedInstruction>> stages;
  double seconds = 0;  ///< until the last stage ends
};

/// The schedules must be valid, as those of make_schedule() are. Throws Error(internal) for a deadlock.
Timeline play(const std::vector<Schedule>& schedules, const PipelineDurations& durations);

/// Share of the total time of all stages in which they compute nothing, from 0 to 1.
double bubble(const Timeline& timeline);

/// Factor on the timeline's length if ranks share cores, from `core_share` to 1. The timeline's durations hold while
/// all ranks compute and each has the share `core_share` of its cores. While only a fraction f of the stages computes,
/// each of them takes max(core_share, f) of its time: the other stages' cores are free, but no rank uses more than its
/// own number of cores.
double shared_core_scale(const Timeline& timeline, double core_share);

}  // namespace bert_hpc::train
