// The timing table at a run's end. Pure: takes rows reduced over ranks, returns text.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::app {

struct TimingFacts {
  std::vector<io::TimerRow> sections;  ///< disjoint; the rest of the wall time is the last one, "other"
  int ranks = 1;
  double wall_seconds = 0;
  double model_flops = 0;  ///< of all ranks during `computing_seconds`; 0: unknown
  double computing_seconds = 0;
  std::int64_t tokens = 0, samples = 0;  ///< during that time, without padding
  std::int64_t computed_tokens = 0;      ///< with padding; 0: as many
  double peak_gflops = 0;                ///< of one rank's hardware; 0: unknown
};

/// With times of a device, these and their shares of the wall time, and the host's mean beside them. Ends with a line
/// of throughput if it is known, and of padding where there is any.
std::string timing_table(const TimingFacts& facts);

}  // namespace bert_hpc::app
