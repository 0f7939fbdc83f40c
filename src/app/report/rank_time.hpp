// How a rank spent its time, from its timers. Pure.
#pragma once

#include <span>

#include "bert_hpc/core/timers.hpp"

namespace bert_hpc::app {

/// Seconds of one rank, on GPUs by their own clock. The remainder of the wall time is output, checkpoints and other
/// work.
struct RankTime {
  double computing = 0;      ///< forward, backward, update
  double communicating = 0;  ///< sums over replicas and sharing of parameters not hidden by computing
  double waiting = 0;        ///< for neighbours in the pipeline, and for data
  double wall = 0;           ///< of the steps; 0 without training
};

RankTime rank_time(std::span<const core::Timers::Section> sections, double wall);

}  // namespace bert_hpc::app
