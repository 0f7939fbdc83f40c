// What AdamW, StableAdamW and LAMB share: their settings, keys and the two moments that they keep of every parameter.
#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <string>

#include "bert_hpc/ops/update_rule.hpp"

namespace bert_hpc::ops::optimizers {

struct MomentSettings {
  explicit MomentSettings(std::span<const double> values)
      : beta1(values[0]), beta2(values[1]), epsilon(values[2]), weight_decay(values[3]) {}
  double beta1, beta2, epsilon, weight_decay;
};

/// Weight decay of a step: what it takes of a weight in relation to the learning rate, or, coupled, what it adds to its
/// gradient.
struct Decay {
  Decay(const MomentSettings& settings, const UpdateStep& step, bool decays)
      : of_weight(decays && !step.coupled_decay ? settings.weight_decay : 0.0),
        of_gradient(static_cast<float>(decays && step.coupled_decay ? settings.weight_decay : 0.0)) {}
  double of_weight;
  float of_gradient;
};

/// 1 − βᵗ for update t.
inline double bias_correction(double beta, const UpdateStep& step) {
  return 1.0 - std::pow(beta, static_cast<double>(step.number));
}

/// `Rule` is made from MomentSettings.
template <class Rule>
OptimizerKind moment_kind(const char* name, double epsilon, double beta2 = 0.999) {
  return {.input = {.name = name,
                    .settings = {{.key = "beta1", .value = 0.9, .limits = {.low = 0, .high = 1, .high_open = true}},
                                 {.key = "beta2", .value = beta2, .limits = {.low = 0, .high = 1, .high_open = true}},
                                 {.key = "epsilon", .value = epsilon, .limits = {.low = 0, .low_open = true}},
                                 {.key = "weight_decay", .value = 0.01, .limits = {.low = 0}}}},
          .states = {{.name = "first_moments"}, {.name = "second_moments"}},
          .make = [](std::span<const double> values) -> std::unique_ptr<UpdateRule> {
            return std::make_unique<Rule>(MomentSettings(values));
          }};
}

}  // namespace bert_hpc::ops::optimizers
