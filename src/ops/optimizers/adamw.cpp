// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019) as torch.optim.AdamW computes it; biases
// and layer norms have no weight decay.
#include <cmath>

#include "update_kernels.hpp"

namespace bert_hpc::ops {
namespace optimizers {

struct AdamwSettings {
  double beta1, beta2, epsilon, weight_decay;
};

/// Constants of a step, formed in double and rounded once, as torch does with Python's numbers. So 1 − beta2 agrees
/// with the bias correction: the float nearest to 0.999 is off by 1.3e-5 of it.
struct AdamwElement {
  static constexpr std::size_t states = 2;
  static constexpr bool tensor_norms = false;

  AdamwElement(const AdamwSettings& settings, const UpdateStep& step, bool decays)
      : decay(static_cast<float>(1.0 - step.learning_rate * (decays ? settings.weight_decay : 0.0))),
        step_size(static_cast<float>(step.learning_rate / correction(settings.beta1, step))),
        inverse_root2(static_cast<float>(1.0 / std::sqrt(correction(settings.beta2, step)))),
        new1(static_cast<float>(1.0 - settings.beta1)),
        new2(static_cast<float>(1.0 - settings.beta2)),
        beta2(static_cast<float>(settings.beta2)),
        epsilon(static_cast<float>(settings.epsilon)),
        gradient_scale(step.gradient_scale) {}

  static double correction(double beta, const UpdateStep& step) {
    return 1.0 - std::pow(beta, static_cast<double>(step.number));
  }

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
  explicit Adamw(std::span<const double> v) : settings_{v[0], v[1], v[2], v[3]} {}

  void update(const UpdateStep& step, const UpdateRanges& ranges, std::size_t first, std::size_t last) const override {
    updates::update("bert_hpc::ops::adamw", step, ranges, first, last, AdamwElement(settings_, step, true),
                    AdamwElement(settings_, step, false));
  }
  void update_on_host(const UpdateStep& step, const HostRange& range) const override {
    updates::update_on_host("bert_hpc::ops::adamw_on_host", range, AdamwElement(settings_, step, range.decay));
  }

 private:
  AdamwSettings settings_;
};

}  // namespace optimizers

OptimizerKind adamw() {
  return {.input = {.name = "adamw",
                    .settings = {{.key = "beta1", .value = 0.9, .low = 0, .high = 1, .high_open = true},
                                 {.key = "beta2", .value = 0.999, .low = 0, .high = 1, .high_open = true},
                                 {.key = "epsilon", .value = 1e-8, .low = 0, .low_open = true},
                                 {.key = "weight_decay", .value = 0.01, .low = 0}}},
          .states = {{.name = "first_moments"}, {.name = "second_moments"}},
          .make = [](std::span<const double> values) -> std::unique_ptr<UpdateRule> {
            return std::make_unique<optimizers::Adamw>(values);
          }};
}

}  // namespace bert_hpc::ops
