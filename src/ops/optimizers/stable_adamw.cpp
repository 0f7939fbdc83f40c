// StableAdamW (Wortsman et al., "Stable and low-precision training for large-scale vision-language models", 2023,
// algorithm 2): AdamW whose learning rate is divided, for each tensor, by RMS = √(mean(g² / max(v, ε²))) where that
// exceeds 1, so that a gradient which the second moments have not seen yet makes no large step. It needs no clipping
// of gradients. Bias correction is in the betas, as in the paper.
//
// An update takes two passes, as LAMB's: the first one brings the moments up to date and sums g² / max(v, ε²).
#include <algorithm>
#include <cmath>

#include "tensor_norm_rule.hpp"

namespace bert_hpc::ops {
namespace optimizers {

/// β (1 − βᵗ⁻¹) / (1 − βᵗ): the β of update t with which a moment that begins at zero needs no correction.
inline double corrected_beta(double beta, const UpdateStep& step) {
  return 1.0 - (1.0 - beta) / bias_correction(beta, step);
}

/// Constants of a step, formed in double and rounded once.
struct StableAdamwElement {
  static constexpr std::size_t states = 2;
  static constexpr bool tensor_norms = true, in_blocks = false;
  static constexpr Labels labels = {"bert_hpc::ops::stable_adamw_moments",
                                    "bert_hpc::ops::stable_adamw_moments_on_host", "bert_hpc::ops::stable_adamw",
                                    "bert_hpc::ops::stable_adamw_on_host"};

  StableAdamwElement(const MomentSettings& settings, const UpdateStep& step, bool decays)
      : learning_rate(static_cast<float>(step.learning_rate)),
        decay(static_cast<float>(Decay(settings, step, decays).of_weight)),
        coupled(Decay(settings, step, decays).of_gradient),
        new1(static_cast<float>(1.0 - corrected_beta(settings.beta1, step))),
        new2(static_cast<float>(1.0 - corrected_beta(settings.beta2, step))),
        beta2(static_cast<float>(corrected_beta(settings.beta2, step))),
        epsilon(static_cast<float>(settings.epsilon)),
        gradient_scale(step.gradient_scale) {}

  // g' = gradient_scale · g (coupled: + wd · w),  m ← m + (g' − m)(1 − β1),  v ← β2 v + (1 − β2) g'²; what is squared
  // is g' / max(√v, ε)
  BERT_HPC_DEVICE float first_pass(float w, float g, float& m, float& v) const {
    const float grad = gradient_scale * g + coupled * w;
    m = m + (grad - m) * new1;
    v = beta2 * v + new2 * grad * grad;
    const float root = std::sqrt(v);
    return grad / (root > epsilon ? root : epsilon);
  }

  // w ← w (1 − lr · scale · wd) − lr · scale · m / (√v + ε)
  BERT_HPC_DEVICE void operator()(float& w, float, float& m, float& v) const {
    const float rate = learning_rate * tensor_scale;
    w = w - rate * (m / (std::sqrt(v) + epsilon) + decay * w);
  }

  /// 1 / max(1, RMS)
  static float scale_of(const TensorSums& sums) {
    if (sums.elements == 0) return 1.0f;
    const double rms = std::sqrt(sums.update_squares / static_cast<double>(sums.elements));
    return static_cast<float>(1.0 / std::max(1.0, rms));
  }

  float learning_rate, decay, coupled, new1, new2, beta2, epsilon, gradient_scale;
  float tensor_scale = 1;
};

}  // namespace optimizers

OptimizerKind stable_adamw() {
  return optimizers::moment_kind<optimizers::TensorNormRule<optimizers::StableAdamwElement>>("stable_adamw", 1e-6,
                                                                                             0.99);
}

}  // namespace bert_hpc::ops
