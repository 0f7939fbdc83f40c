// Learning-rate schedules as defined by Hugging Face's get_scheduler: a factor on the peak rate, a pure function of the
// number of completed updates.
#pragma once

#include <cstdint>

namespace bert_hpc::train {

struct LearningRateSchedule {
  enum class Kind { linear, cosine, polynomial, constant };
  Kind kind = Kind::linear;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;
  double power = 1.0;       ///< polynomial
  double end_factor = 0.0;  ///< polynomial: ratio of the final rate to the peak rate
};

/// Factor for the update after `done` updates (0 for the first). It rises linearly from 0 over warmup_steps, then falls
/// to 0 (or end_factor) at total_steps, or stays 1 for `constant`.
double learning_rate_factor(const LearningRateSchedule& schedule, std::int64_t done);

}  // namespace bert_hpc::train
