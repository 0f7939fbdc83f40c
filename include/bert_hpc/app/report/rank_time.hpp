// What a rank did with its time, from its timers. Pure.
#pragma once

#include <span>

#include "bert_hpc/core/timers.hpp"

namespace bert_hpc::app {

/// Seconds of one rank. What is missing to the wall time is output, checkpoints and the rest.
struct RankTime {
  double computing = 0;      ///< forward, backward, update
  double communicating = 0;  ///< sums over replicas and sharing of parameters that computing did not hide
  double waiting = 0;        ///< for neighbours in the pipeline, and for data
  double wall = 0;           ///< of the steps; 0 where nothing was trained
};

RankTime rank_time(std::span<const core::Timers::Section> sections, double wall);

}  // namespace bert_hpc::app
