// Loss scaling for gradients in fp16, whose smallest number is 6e-8: the loss is multiplied by a scale before the
// backward pass, and the parameter gradients, which are floats, are divided by it before the update. The scale adapts
// by the rule of torch.amp.GradScaler: if any gradient is not finite, the update is skipped and the scale decreases;
// after a number of consecutive finite updates it grows (Micikevicius et al., "Mixed precision training", 2018).
// GradScaler has no lower bound; here the scale does not fall below 1, where scaling cannot be the cause of non-finite
// values. Arithmetic only, the same on every rank.
#pragma once

#include <cstdint>

namespace bert_hpc::train {

struct LossScaleSettings {
  double initial = 65536;
  double growth_factor = 2, backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  ///< updates
  double floor = 1;
  bool dynamic = true;  ///< if false, the scale keeps its initial value
};

class LossScale {
 public:
  /// State for checkpoints.
  struct State {
    double scale = 1;
    std::int64_t growth_tracker = 0;  ///< updates since the scale last changed
    std::int64_t skipped = 0;         ///< updates skipped so far
  };

  /// No scaling: a constant 1.
  LossScale() : LossScale({.initial = 1, .dynamic = false}) {}
  explicit LossScale(const LossScaleSettings& settings) : settings_(settings) { state_.scale = settings.initial; }

  double scale() const { return state_.scale; }
  /// True if a smaller scale may make non-finite gradients finite.
  bool may_back_off() const { return settings_.dynamic && state_.scale > settings_.floor; }

  /// Call it after each step; `finite`: all gradients were finite.
  void update(bool finite);

  const State& state() const { return state_; }
  /// A fixed scale keeps its value.
  void restore(const State& state);

 private:
  LossScaleSettings settings_;
  State state_;
};

}  // namespace bert_hpc::train
