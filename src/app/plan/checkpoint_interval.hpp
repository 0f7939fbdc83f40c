// Interval between checkpoints if [checkpoint] sets neither every_steps nor every_minutes.
#pragma once

#include <algorithm>

namespace bert_hpc::app {

/// Seconds between two checkpoints, so that a killed run loses at most 5% of its time or ten minutes, whichever is
/// less. Two limits lengthen the interval: writing takes at most 2% of the time, and the minimum is 10 s.
/// `run_seconds`: duration of the whole run, 0 if not known yet; `checkpoint_seconds`: time to write one checkpoint.
/// Pure.
inline double checkpoint_interval(double run_seconds, double checkpoint_seconds) {
  constexpr double longest = 600, shortest = 10, loss = 0.05, cost = 0.02;
  const double wanted = run_seconds > 0 ? std::min(longest, loss * run_seconds) : longest;
  return std::max({wanted, checkpoint_seconds / cost, shortest});
}

}  // namespace bert_hpc::app
