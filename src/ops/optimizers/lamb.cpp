// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020, algorithm 2) with
// φ(x) = x and bias correction, as NVIDIA's FusedLAMB in Apex: the step of a tensor is scaled by ‖w‖/‖u‖, with 1 where
// either norm is zero. Biases and layer norms have neither weight decay nor such a scale.
//
// An update takes two passes. The first one brings the moments up to date and sums squares of w and u; the second one
// forms u again from what the first one left, so that nothing but the moments is stored between them.
#include <cmath>

#include "tensor_norm_rule.hpp"

namespace bert_hpc::ops {
namespace optimizers {

/// Constants of a step, formed in double and rounded once.
struct LambElement {
  static constexpr std::size_t states = 2;
  static constexpr bool tensor_norms = true, in_blocks = false;
  static constexpr Labels labels = {"bert_hpc::ops::lamb_moments", "bert_hpc::ops::lamb_moments_on_host",
                                    "bert_hpc::ops::lamb", "bert_hpc::ops::lamb_on_host"};

  LambElement(const MomentSettings& settings, const UpdateStep& step, bool decays)
      : learning_rate(static_cast<float>(step.learning_rate)),
        decay(static_cast<float>(Decay(settings, step, decays).of_weight)),
        coupled(Decay(settings, step, decays).of_gradient),
        inverse1(static_cast<float>(1.0 / bias_correction(settings.beta1, step))),
        inverse_root2(static_cast<float>(1.0 / std::sqrt(bias_correction(settings.beta2, step)))),
        new1(static_cast<float>(1.0 - settings.beta1)),
        new2(static_cast<float>(1.0 - settings.beta2)),
        beta2(static_cast<float>(settings.beta2)),
        epsilon(static_cast<float>(settings.epsilon)),
        gradient_scale(step.gradient_scale) {}

  // g' = gradient_scale · g (coupled: + wd · w),  m ← m + (g' − m)(1 − β1),  v ← β2 v + (1 − β2) g'²; then
  // u = m / bc1 / (√v / √bc2 + ε) + wd · w
  BERT_HPC_DEVICE float first_pass(float w, float g, float& m, float& v) const {
    const float grad = gradient_scale * g + coupled * w;
    m = m + (grad - m) * new1;
    v = beta2 * v + new2 * grad * grad;
    return direction(w, m, v);
  }
  BERT_HPC_DEVICE float direction(float w, float m, float v) const {
    return m * inverse1 / (std::sqrt(v) * inverse_root2 + epsilon) + decay * w;
  }

  // w ← w − lr · scale · u
  BERT_HPC_DEVICE void operator()(float& w, float, float& m, float& v) const {
    w = w - learning_rate * tensor_scale * direction(w, m, v);
  }

  /// ‖w‖ / ‖u‖
  static float scale_of(const TensorSums& sums) {
    if (!sums.decay || !(sums.value_squares > 0 && sums.update_squares > 0)) return 1.0f;
    return static_cast<float>(std::sqrt(sums.value_squares / sums.update_squares));
  }

  float learning_rate, decay, coupled, inverse1, inverse_root2, new1, new2, beta2, epsilon, gradient_scale;
  float tensor_scale = 1;
};

}  // namespace optimizers

OptimizerKind lamb() {
  return optimizers::moment_kind<optimizers::TensorNormRule<optimizers::LambElement>>("lamb", 1e-6);
}

}  // namespace bert_hpc::ops
