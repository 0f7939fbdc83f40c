#include "bert_hpc/train/loss_scale.hpp"

#include <algorithm>
#include <limits>

namespace bert_hpc::train {

void LossScale::update(bool finite) {
  if (!finite) ++state_.skipped;
  if (!settings_.dynamic) return;
  if (!finite) {
    state_.scale = std::max(settings_.floor, state_.scale * settings_.backoff_factor);
    state_.growth_tracker = 0;
    return;
  }
  if (++state_.growth_tracker < settings_.growth_interval) return;
  state_.growth_tracker = 0;
  const double grown = state_.scale * settings_.growth_factor;
  // Kernels use the scale as a float.
  if (grown <= static_cast<double>(std::numeric_limits<float>::max())) state_.scale = grown;
}

void LossScale::restore(const State& state) {
  const double fixed = settings_.initial;
  state_ = state;
  if (!settings_.dynamic) state_.scale = fixed;
}

}  // namespace bert_hpc::train
