// [run] max_walltime: when a run must stop so that its checkpoint is written in time. Only rank 0 decides, because
// clocks differ between ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "bert_hpc/config/walltime.hpp"

namespace bert_hpc::app {

/// Decides when to stop for the wall-time limit: early enough for one more step and the checkpoint. Times are seconds
/// since the run's start. Pure.
class WallTime {
 public:
  /// limit: [run] max_walltime; bytes: of a checkpoint.
  WallTime(const std::optional<std::string>& limit, std::int64_t bytes) {
    if (limit) limit_ = config::walltime_seconds(*limit).value_or(0);
    constexpr double slow_disk = 100e6;  // bytes/s, until a checkpoint has been measured
    saving_ = static_cast<double>(bytes) / slow_disk;
  }
  void saved(double seconds) { saving_ = seconds; }
  double saving_seconds() const { return saving_; }  // of the last checkpoint, or estimated
  /// Call once per step.
  void step(double now) {
    if (last_ > 0) longest_ = std::max(longest_, now - last_);
    last_ = now;
  }
  bool is_over(double now) const {
    if (limit_ <= 0) return false;
    constexpr double finalising = 2;
    const double margin = std::min(limit_ / 2, 2 * longest_ + 1.5 * saving_ + finalising);
    return now + margin >= limit_;
  }

 private:
  double limit_ = 0, saving_ = 0, longest_ = 0, last_ = 0;
};

}  // namespace bert_hpc::app
