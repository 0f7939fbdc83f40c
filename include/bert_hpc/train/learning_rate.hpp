// Learning-rate schedules as defined by Hugging Face's get_scheduler: a factor on the peak rate, a pure function of the
// number of completed updates. "warmup_stable_decay": Hu et al., "MiniCPM", 2024; its decay with a root: Hägele et al.,
// "Scaling laws and compute-optimal training beyond fixed training durations", 2024.
#pragma once

#include <cstdint>

namespace bert_hpc::train {

struct LearningRateSchedule {
  enum class Kind { linear, cosine, polynomial, constant, warmup_stable_decay };
  enum class Decay { linear, one_minus_root };
  Kind kind = Kind::linear;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;
  double power = 1.0;       ///< polynomial
  double end_factor = 0.0;  ///< polynomial, warmup_stable_decay: ratio of the final rate to the peak rate
  // warmup_stable_decay: the rate falls in the last decay_steps.
  std::int64_t decay_steps = 0;
  Decay decay = Decay::linear;
};

/// Factor for the update after `done` updates (0 for the first). It rises linearly from 0 over warmup_steps, then falls
/// to 0 (or end_factor) at total_steps, or stays 1 for `constant`, and for `warmup_stable_decay` until its decay.
double learning_rate_factor(const LearningRateSchedule& schedule, std::int64_t done);

}  // namespace bert_hpc::train
