// Updates of flat parameter ranges: every array is read and written once.
#include "bert_hpc/ops/optimizer_update.hpp"

#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "kernel.hpp"
#include "row_sum.hpp"

namespace bert_hpc::ops {

// g' = gradient_scale · g,  m ← m + (g' − m)(1 − β1),  v ← β2 v + (1 − β2) g'²,
// w ← w (1 − lr · wd) − lr / bc1 · m / (√v / √bc2 + ε),  g ← 0
void adamw_update(const AdamwStep& step, std::span<float> value, std::span<float> gradient,
                  std::span<float> first_moment, std::span<float> second_moment) {
  core::require(
      gradient.size() == value.size() && first_moment.size() == value.size() && second_moment.size() == value.size(),
      "adamw_update: values, gradients and moments differ in size");
  float* w = value.data();
  float* g = gradient.data();
  float* m = first_moment.data();
  float* v = second_moment.data();
  // Constants are formed in double and rounded once, as torch does with Python's numbers.
  const float decay = static_cast<float>(1.0 - step.learning_rate * step.weight_decay);
  const float step_size = static_cast<float>(step.learning_rate / step.bias_correction1);
  const float inverse_root2 = static_cast<float>(1.0 / std::sqrt(step.bias_correction2));
  const float new1 = static_cast<float>(1.0 - step.beta1);
  const float new2 = static_cast<float>(1.0 - step.beta2);
  const float beta2 = static_cast<float>(step.beta2), epsilon = static_cast<float>(step.epsilon);
  const float gradient_scale = step.gradient_scale;
  kernel::for_flat(
      "bert_hpc::ops::adamw_update", static_cast<std::int64_t>(value.size()), KOKKOS_LAMBDA(std::int64_t i) {
        const float grad = gradient_scale * g[i];
        const float m_new = m[i] + (grad - m[i]) * new1;
        const float v_new = beta2 * v[i] + new2 * grad * grad;
        m[i] = m_new;
        v[i] = v_new;
        w[i] = w[i] * decay - step_size * (m_new / (std::sqrt(v_new) * inverse_root2 + epsilon));
        g[i] = 0.0f;
      });
}

// partial_b = Σ x² over block b
void squared_norm_blocks(std::span<const float> x, std::span<double> partial) {
  const std::int64_t count = static_cast<std::int64_t>(x.size());
  const std::int64_t blocks = kernel::divide_up(count, norm_block);
  core::require(static_cast<std::int64_t>(partial.size()) == blocks,
                "squared_norm_blocks: one partial sum per block of norm_block elements is needed");
  const float* in = x.data();
  double* out = partial.data();
  kernel::for_items(
      "bert_hpc::ops::squared_norm_blocks", blocks, KOKKOS_LAMBDA(std::int64_t b) {
        const std::int64_t begin = b * norm_block;
        const std::int64_t end = begin + norm_block < count ? begin + norm_block : count;
        const float* block = in + begin;
        out[b] = kernel::sum_of<double>(
            end - begin, [=](std::int64_t i) { return static_cast<double>(block[i]) * static_cast<double>(block[i]); });
      });
}

// y += x
void accumulate(std::span<const float> source, std::span<float> destination) {
  core::require(source.size() == destination.size(), "accumulate: ranges differ in size");
  const float* in = source.data();
  float* out = destination.data();
  kernel::for_flat(
      "bert_hpc::ops::accumulate", static_cast<std::int64_t>(source.size()),
      KOKKOS_LAMBDA(std::int64_t i) { out[i] += in[i]; });
}

// x = 0
void set_zero(std::span<float> x) {
  float* out = x.data();
  kernel::for_flat(
      "bert_hpc::ops::set_zero", static_cast<std::int64_t>(x.size()), KOKKOS_LAMBDA(std::int64_t i) { out[i] = 0.0f; });
}

}  // namespace bert_hpc::ops
