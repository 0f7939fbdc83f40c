// [run] max_walltime: when a run must stop so that its checkpoint is written in time. Only rank 0 decides, because
// clocks differ between ranks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "bert_hpc/app/run/run_context.hpp"
#include "bert_hpc/config/walltime.hpp"

namespace bert_hpc::app {

/// Decides when to stop for the wall-time limit: early enough for one more step and the checkpoint.
class WallTime {
 public:
  WallTime(const RunContext& context, std::int64_t bytes) : context_(context) {
    if (context.input.run.max_walltime) limit_ = config::walltime_seconds(*context.input.run.max_walltime).value_or(0);
    constexpr double slow_disk = 100e6;  // bytes/s, until a checkpoint has been measured
    saving_ = static_cast<double>(bytes) / slow_disk;
  }
  void saved(double seconds) { saving_ = seconds; }
  double saving_seconds() const { return saving_; }  // of the last checkpoint, or estimated
  /// Call once per step.
  void step() {
    const double now = context_.seconds();
    if (last_ > 0) longest_ = std::max(longest_, now - last_);
    last_ = now;
  }
  bool is_over() const {
    if (limit_ <= 0) return false;
    constexpr double finalising = 2;
    const double margin = std::min(limit_ / 2, 2 * longest_ + 1.5 * saving_ + finalising);
    return context_.seconds() + margin >= limit_;
  }

 private:
  const RunContext& context_;
  double limit_ = 0, saving_ = 0, longest_ = 0, last_ = 0;
};

}  // namespace bert_hpc::app
