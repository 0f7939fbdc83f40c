// Plays pipeline schedules against the clock: given how long every pass and message takes, when does each stage do
// what, and how long does it wait? Pure. The times may come from a model of the machine (train/simulate.hpp) or from
// measurement.
#pragma once

#include <functional>
#include <vector>

#include "bert_hpc/train/schedule.hpp"

namespace bert_hpc::train {

/// Durations in seconds. Sends cost the sender nothing; the messages from one stage to another follow each other.
struct PipelineDurations {
  std::function<double(int stage, const Instruction&)> compute;  ///< forward, backward, …
  /// How long a message occupies the way between two stages, and the delay on top; null: nothing takes time.
  std::function<double(int from, int to, const Message&)> transfer;
  std::function<double(int from, int to)> latency;
};

struct TimedInstruction {
  Instruction instruction;
  double begin = 0, end = 0;  ///< seconds since the step's begin; of a receive: how long it was waited for
};

struct Timeline {
  std::vector<std::vector<TimedInstruction>> stages;
  double seconds = 0;  ///< until the last stage is done
};

/// The schedules must be without fault (train/schedule_check.hpp). Throws Error(internal) for a deadlock.
Timeline play(const std::vector<Schedule>& schedules, const PipelineDurations& durations);

/// Share of all stages' time in which nothing is computed, from 0 to 1.
double bubble(const Timeline& timeline);

/// How much of the timeline's length remains where ranks share cores, from `core_share` to 1. The timeline's durations
/// are those while all ranks compute, and each then has the part `core_share` of its cores. While only a part f of the
/// stages computes, each of them runs max(core_share, f) as long: the others' cores are free, but no rank uses more
/// than its own number of cores.
double shared_core_scale(const Timeline& timeline, double core_share);

}  // namespace bert_hpc::train
