// The table at a run's end: where the time went. Pure: rows reduced over ranks in, text out.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::app {

struct TimingFacts {
  std::vector<io::TimerRow> sections;  ///< that do not overlap, so that they add up to at most the wall time
  int ranks = 1;
  bool of_launches = false;  ///< sections time a host that launches kernels on a GPU and seldom waits for them
  double wall_seconds = 0;   ///< that the sections are parts of; what is missing is shown as "other"
  double model_flops = 0;    ///< of all ranks, while `computing_seconds` went by; 0: not told
  double computing_seconds = 0;
  std::int64_t tokens = 0, samples = 0;  ///< in that time
  double peak_gflops = 0;                ///< of one rank's hardware; 0: unknown
};

/// Ends in a line of throughput where there is one.
std::string timing_table(const TimingFacts& facts);

}  // namespace bert_hpc::app
