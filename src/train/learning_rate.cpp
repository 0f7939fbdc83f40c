#include "bert_hpc/train/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace bert_hpc::train {
namespace {

double decayed(const LearningRateSchedule& schedule, std::int64_t done) {
  const std::int64_t first = std::max(schedule.warmup_steps, schedule.total_steps - schedule.decay_steps);
  if (done < first) return 1.0;
  const std::int64_t falling = std::max<std::int64_t>(1, schedule.total_steps - first);
  const double progress = std::min(1.0, static_cast<double>(done - first) / static_cast<double>(falling));
  const double left = 1.0 - (schedule.decay == LearningRateSchedule::Decay::linear ? progress : std::sqrt(progress));
  return (1.0 - schedule.end_factor) * left + schedule.end_factor;
}

}  // namespace

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
    case LearningRateSchedule::Kind::warmup_stable_decay:
      return decayed(schedule, done);
  }
  return 1.0;
}

}  // namespace bert_hpc::train
