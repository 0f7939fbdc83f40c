// Loss scaling for gradients in fp16, whose smallest number is 6e-8: the loss is multiplied by a scale before the
// backward pass and the gradients of parameters, which are floats, are divided by it before the update. The scale is
// found on the way, by the rule of torch.amp.GradScaler: an update whose gradients are not all finite is left out and
// the scale backs off; after so many updates in a row without that it grows (Micikevicius et al., "Mixed precision
// training", 2018). GradScaler has no floor; here a scale of 1 is as low as it goes, where what is not finite is so by
// itself. Arithmetic only, the same on every rank.
#pragma once

#include <cstdint>

namespace bert_hpc::train {

struct LossScaleSettings {
  double initial = 65536;
  double growth_factor = 2, backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  ///< updates
  double floor = 1;
  bool dynamic = true;  ///< else it stays what it was at first
};

class LossScale {
 public:
  /// What a checkpoint keeps.
  struct State {
    double scale = 1;
    std::int64_t growth_tracker = 0;  ///< updates since the scale last changed
    std::int64_t skipped = 0;         ///< updates left out so far
  };

  /// No scaling: 1 for ever.
  LossScale() : LossScale({.initial = 1, .dynamic = false}) {}
  explicit LossScale(const LossScaleSettings& settings) : settings_(settings) { state_.scale = settings.initial; }

  double scale() const { return state_.scale; }
  /// May a smaller scale make finite what is not, or is there nothing left to try?
  bool may_back_off() const { return settings_.dynamic && state_.scale > settings_.floor; }

  /// After each step: were all gradients finite?
  void update(bool finite);

  const State& state() const { return state_; }
  /// A fixed scale stays what it was set to.
  void restore(const State& state);

 private:
  LossScaleSettings settings_;
  State state_;
};

}  // namespace bert_hpc::train
