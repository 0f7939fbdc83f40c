// AdamW of one element, and of eight neighbours as a GPU's thread takes them: included by kernel files and by tests
// that run it without a GPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "bert_hpc/core/device.hpp"
#include "bert_hpc/ops/optimizer_update.hpp"
#include "octets.hpp"

namespace bert_hpc::ops {

/// Constants of a step, formed in double and rounded once, as torch does with Python's numbers.
struct Adamw {
  explicit Adamw(const AdamwStep& step)
      : decay(static_cast<float>(1.0 - step.learning_rate * step.weight_decay)),
        step_size(static_cast<float>(step.learning_rate / step.bias_correction1)),
        inverse_root2(static_cast<float>(1.0 / std::sqrt(step.bias_correction2))),
        new1(static_cast<float>(1.0 - step.beta1)),
        new2(static_cast<float>(1.0 - step.beta2)),
        beta2(static_cast<float>(step.beta2)),
        epsilon(static_cast<float>(step.epsilon)),
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

/// Updates of w, with its gradient, moments and copy (of type `Copy`, or void without). `clears`: the gradient becomes
/// 0.
template <class Copy, bool clears = true, class Gradient = float>
struct UpdateElement {
  Adamw update;
  float* w;
  Gradient* g;
  float *m, *v;
  Copy* copy;

  template <bool known_zero>
  BERT_HPC_DEVICE void element(std::int64_t i) const {
    if constexpr (known_zero) {
      update(w[i], 0.0f, m[i], v[i]);
    } else {
      update(w[i], g[i], m[i], v[i]);
      if constexpr (clears) g[i] = 0.0f;
    }
    if constexpr (!std::is_void_v<Copy>) copy[i] = Copy(w[i]);
  }

  /// Elements [i, i + count), at most an octet. All is read before the first is written, so that the reads of a thread
  /// are under way together: in element() the compiler must assume that a store changes what the next load finds.
  template <bool known_zero>
  BERT_HPC_DEVICE void octet(std::int64_t i, int count) const {
    using octets::width;
    float value[width], gradient[width] = {}, first[width], second[width];
    octets::load(w + i, count, value);
    if constexpr (!known_zero) octets::load(g + i, count, gradient);
    octets::load(m + i, count, first);
    octets::load(v + i, count, second);
    for (int j = 0; j < width; ++j) update(value[j], gradient[j], first[j], second[j]);
    octets::store(first, count, m + i);
    octets::store(second, count, v + i);
    octets::store(value, count, w + i);
    if constexpr (!known_zero && clears) {
      float zero[width] = {};
      octets::store(zero, count, g + i);
    }
    if constexpr (!std::is_void_v<Copy>) octets::store(value, count, copy + i);
  }
};

/// Zeroes a gradient, where it is not known to be zero.
struct ZeroElement {
  float* x;

  template <bool known_zero>
  BERT_HPC_DEVICE void element(std::int64_t i) const {
    if constexpr (!known_zero) x[i] = 0.0f;
  }
  template <bool known_zero>
  BERT_HPC_DEVICE void octet(std::int64_t i, int count) const {
    if constexpr (known_zero) return;
    float zero[octets::width] = {};
    octets::store(zero, count, x + i);
  }
};

/// The octets of [0, count) that are thread `lane`'s of a warp; lines that `marks` (or null) says are zero go the short
/// way.
template <class Body>
BERT_HPC_DEVICE void update_octets(int lane, std::int64_t count, const std::uint8_t* marks, const Body& body) {
  using namespace octets;
  static_assert(GradientMarks::line % width == 0, "an octet lies in one line");
  for (std::int64_t o = lane; o < count_of(count); o += warp_lanes) {
    const std::int64_t begin = o * width;
    if (marks != nullptr && marks[begin / GradientMarks::line] == 0) {
      body.template octet<true>(begin, columns_of(o, count));
    } else {
      body.template octet<false>(begin, columns_of(o, count));
    }
  }
}

}  // namespace bert_hpc::ops
