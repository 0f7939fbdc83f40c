// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019) as torch.optim.AdamW computes it; biases
// and layer norms have no weight decay.
#include <cmath>

#include "moments.hpp"
#include "update_kernels.hpp"

namespace bert_hpc::ops {
namespace optimizers {

/// Constants of a step, formed in double and rounded once, as torch does with Python's numbers. So 1 − beta2 agrees
/// with the bias correction: the float nearest to 0.999 is off by 1.3e-5 of it.
struct AdamwElement {
  static constexpr std::size_t states = 2;
  static constexpr bool tensor_norms = false;

  AdamwElement(const MomentSettings& settings, const UpdateStep& step, bool decays)
      : decay(static_cast<float>(1.0 - step.learning_rate * (decays ? settings.weight_decay : 0.0))),
        step_size(static_cast<float>(step.learning_rate / bias_correction(settings.beta1, step))),
        inverse_root2(static_cast<float>(1.0 / std::sqrt(bias_correction(settings.beta2, step)))),
        new1(static_cast<float>(1.0 - settings.beta1)),
        new2(static_cast<float>(1.0 - settings.beta2)),
        beta2(static_cast<float>(settings.beta2)),
        epsilon(static_cast<float>(settings.epsilon)),
        gradient_scale(step.gradient_scale) {}

  // g' = gradient_scale · g,  m ← m + (g' − m)(1 − β1),  v ← β2 v + (1 − β2) g'²,
  // w ← w (1 − lr · wd) − lr / bc1 · m / (√v / √bc2 + ε)
  BERT_HPC_DEVICE void operator()(float& w, float g, float& m, float& v) const {
    const float grad = gradient_scale * g;
    const float m_new = m + (grad - m) * new1;
    const float v_new = beta2 * v + new2 * grad * grad;
    m = m_new;
    v = v_new;
    w = w * decay - step_size * (m_new / (std::sqrt(v_new) * inverse_root2 + epsilon));
  }

  float decay, step_size, inverse_root2, new1, new2, beta2, epsilon, gradient_scale;
};

class Adamw final : public UpdateRule {
 public:
  explicit Adamw(const MomentSettings& settings) : settings_(settings) {}

  void update(const UpdateStep& step, const UpdateRanges& ranges, std::size_t first, std::size_t last) const override {
    updates::update("bert_hpc::ops::adamw", step, ranges, first, last, AdamwElement(settings_, step, true),
                    AdamwElement(settings_, step, false));
  }
  void update_on_host(const UpdateStep& step, const HostRange& range) const override {
    updates::update_on_host("bert_hpc::ops::adamw_on_host", range, AdamwElement(settings_, step, range.decay));
  }

 private:
  MomentSettings settings_;
};

}  // namespace optimizers

OptimizerKind adamw() {
  return optimizers::moment_kind<optimizers::Adamw>("adamw", 1e-8);
}

}  // namespace bert_hpc::ops
