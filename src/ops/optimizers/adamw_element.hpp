// The formula of AdamW for one parameter, which "adamw" and "adamw8bit" share.
#pragma once

#include <cmath>

#include "bert_hpc/core/device.hpp"
#include "moments.hpp"

namespace bert_hpc::ops::optimizers {

/// Constants of a step, formed in double and rounded once, as torch does with Python's numbers. So 1 − beta2 agrees
/// with the bias correction: the float nearest to 0.999 is off by 1.3e-5 of it.
struct AdamwElement {
  static constexpr std::size_t states = 2;
  static constexpr bool tensor_norms = false, in_blocks = false;

  AdamwElement(const MomentSettings& settings, const UpdateStep& step, bool decays)
      : decay(static_cast<float>(1.0 - step.learning_rate * Decay(settings, step, decays).of_weight)),
        coupled(Decay(settings, step, decays).of_gradient),
        step_size(static_cast<float>(step.learning_rate / bias_correction(settings.beta1, step))),
        inverse_root2(static_cast<float>(1.0 / std::sqrt(bias_correction(settings.beta2, step)))),
        new1(static_cast<float>(1.0 - settings.beta1)),
        new2(static_cast<float>(1.0 - settings.beta2)),
        beta2(static_cast<float>(settings.beta2)),
        epsilon(static_cast<float>(settings.epsilon)),
        gradient_scale(step.gradient_scale) {}

  // g' = gradient_scale · g (coupled: + wd · w),  m ← m + (g' − m)(1 − β1),  v ← β2 v + (1 − β2) g'²,
  // w ← w (1 − lr · wd) − lr / bc1 · m / (√v / √bc2 + ε)
  BERT_HPC_DEVICE void operator()(float& w, float g, float& m, float& v) const {
    const float grad = gradient_scale * g + coupled * w;
    const float m_new = m + (grad - m) * new1;
    const float v_new = beta2 * v + new2 * grad * grad;
    m = m_new;
    v = v_new;
    w = w * decay - step_size * (m_new / (std::sqrt(v_new) * inverse_root2 + epsilon));
  }

  /// The same with a gradient of 0 and without coupled decay.
  BERT_HPC_DEVICE void rest(float& w, float& m, float& v) const {
    const float m_new = m - m * new1;
    const float v_new = beta2 * v;
    m = m_new;
    v = v_new;
    w = w * decay - step_size * (m_new / (std::sqrt(v_new) * inverse_root2 + epsilon));
  }
  /// The same if moments are 0.
  BERT_HPC_DEVICE void rest(float& w) const { w = w * decay; }

  float decay, coupled, step_size, inverse_root2, new1, new2, beta2, epsilon, gradient_scale;
};

}  // namespace bert_hpc::ops::optimizers
