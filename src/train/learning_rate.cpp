#include "bert_hpc/train/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace bert_hpc::train {

double learning_rate_factor(const LearningRateSchedule& schedule, std::int64_t done) {
  if (done < schedule.warmup_steps) return static_cast<double>(done) / static_cast<double>(schedule.warmup_steps);
  const std::int64_t falling = std::max<std::int64_t>(1, schedule.total_steps - schedule.warmup_steps);
  const double progress =
      std::min(1.0, static_cast<double>(done - schedule.warmup_steps) / static_cast<double>(falling));
  switch (schedule.kind) {
    case LearningRateSchedule::Kind::linear:
      return 1.0 - progress;
    case LearningRateSchedule::Kind::cosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    case LearningRateSchedule::Kind::polynomial:
      return (1.0 - schedule.end_factor) * std::pow(1.0 - progress, schedule.power) + schedule.end_factor;
    case LearningRateSchedule::Kind::constant:
      return 1.0;
  }
  return 1.0;
}

}  // namespace bert_hpc::train
