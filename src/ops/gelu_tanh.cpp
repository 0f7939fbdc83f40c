// GELU in the form with tanh, x·½·(1 + tanh(u)) with u = √(2/π)·(x + 0.044715·x³) (Hendrycks and Gimpel 2016; GPT-2).
// ½·(1 + tanh(u)) is the logistic function of 2·u, which needs one exponential and keeps its relative accuracy near
// zero.
#include "bert_hpc/ops/gelu_tanh.hpp"

#include "bert_hpc/ops/vector_math.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

constexpr float twice_root = 1.59576912f, cubic = 0.044715f;  // 2·√(2/π)

/// σ(2·u) for |x| up to 10, beyond which it is 0 or 1 in fp32.
BERT_HPC_DEVICE float share_of(float x) {
  return 1.0f / (1.0f + fast_exp(-twice_root * x * multiply_add(cubic * x, x, 1.0f)));
}

BERT_HPC_DEVICE float gelu_tanh(float x) {
  if (x > 10.0f) return x;
  const float bounded = x < -10.0f ? -10.0f : x;
  return bounded * share_of(bounded);
}

/// σ(2·u) + x·σ'(2·u)·2·u'
BERT_HPC_DEVICE float gelu_tanh_derivative(float x) {
  const float low = x < -10.0f ? -10.0f : x, bounded = low > 10.0f ? 10.0f : low;
  const float share = share_of(bounded);
  const float slope = twice_root * multiply_add(3.0f * cubic * bounded, bounded, 1.0f);
  return multiply_add(bounded * slope, share * (1.0f - share), share);
}

template <class T>
void forward_in(Tensor<const T> pre, Tensor<T> y) {
  kernel::map(
      "bert_hpc::ops::gelu_tanh_forward", pre, y, KOKKOS_LAMBDA(std::int64_t, float x) { return gelu_tanh(x); });
}

template <class T>
void backward_in(Tensor<const T> pre, Tensor<const T> d_y, Tensor<T> d_pre) {
  kernel::map(
      "bert_hpc::ops::gelu_tanh_backward", pre, d_y, d_pre,
      KOKKOS_LAMBDA(float x, float d) { return d * gelu_tanh_derivative(x); });
}

}  // namespace

void gelu_tanh_forward(ConstMatrix pre, Matrix y) {
  core::with_type(pre.type, [&]<class T>() { forward_in<T>(pre.as<T>(), y.as<T>()); });
}

void gelu_tanh_backward(ConstMatrix pre, ConstMatrix d_y, Matrix d_pre) {
  core::with_type(pre.type, [&]<class T>() { backward_in<T>(pre.as<T>(), d_y.as<T>(), d_pre.as<T>()); });
}

}  // namespace bert_hpc::ops
