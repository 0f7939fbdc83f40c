// Bias and activations; the formula is above each kernel.
#include "bert_hpc/ops/activation.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/fusion.hpp"
#include "bert_hpc/ops/gelu_tanh.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#include "column_sums_finish.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"
#include "kernel_strips.hpp"

namespace bert_hpc::ops {
namespace {

// y_ij += bias_j
template <class T>
void add_bias_in(Tensor<T> y, const float* bias) {
  kernel::map(
      "bert_hpc::ops::add_bias", y, y, KOKKOS_LAMBDA(std::int64_t j, float x) { return x + bias[j]; });
}

// y = x · Φ(x)
template <class T>
void gelu_forward_in(Tensor<const T> pre, Tensor<T> y) {
  kernel::map(
      "bert_hpc::ops::gelu_forward", pre, y, KOKKOS_LAMBDA(std::int64_t, float x) { return gelu_of<T>(x); });
}

// pre_ij += bias_j, y = pre · Φ(pre), with pre as stored
template <class T>
void bias_gelu_forward_in(Tensor<T> pre, const float* bias, Tensor<T> y) {
#if BERT_HPC_WARPS
  kernel::for_packs(
      {"bert_hpc::ops::bias_gelu_forward", kernel::bytes_of<T, T, T>(y.size())}, y.rows, y.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t begin, int count) {
        float x[packs::width], b[packs::width];
        packs::load(pre.row(i) + begin, count, x);
        packs::load(bias + begin, count, b);
        for (int j = 0; j < packs::width; ++j) x[j] += b[j];
        packs::store(x, count, pre.row(i) + begin);
        for (int j = 0; j < packs::width; ++j) x[j] = gelu_of<T>(x[j]);
        packs::store(x, count, y.row(i) + begin);
      });
#else
  kernel::for_elements(
      {"bert_hpc::ops::bias_gelu_forward", kernel::bytes_of<T, T, T>(y.size())}, y.rows, y.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        pre(i, j) += bias[j];
        y(i, j) = gelu_of<T>(pre(i, j));
      });
#endif
}

// d_x = d_y · (Φ(x) + x · φ(x)), φ(x) = exp(−x² / 2) / √(2π)
template <class T>
void gelu_backward_in(Tensor<const T> pre, Tensor<const T> d_y, Tensor<T> d_pre) {
  kernel::map(
      "bert_hpc::ops::gelu_backward", pre, d_y, d_pre,
      KOKKOS_LAMBDA(float x, float d) { return d * gelu_derivative_of<T>(x); });
}

template <class T>
void gelu_backward_sums_in(Tensor<const T> pre, Tensor<const T> d_y, Tensor<T> d_pre, const ColumnSums& own,
                           Write write, const ColumnSums& more) {
  kernel::sum_strips({"bert_hpc::ops::gelu_backward_sums",
                      kernel::bytes_of<T, T, T>(pre.size()) + kernel::bytes_of<float>(more.x.size())},
                     kernel::strip_sums<1>(pre.rows, pre.columns, packs::GeluBackwardTerm<T>{pre, d_y, d_pre},
                                           kernel::FinishSums(own, write)),
                     kernel::sums_of<float>(more, write));
}

// y = x · σ(x)
template <class T>
void silu_forward_in(Tensor<const T> pre, Tensor<T> y) {
  kernel::map(
      "bert_hpc::ops::silu_forward", pre, y, KOKKOS_LAMBDA(std::int64_t, float x) { return silu(x); });
}

template <class T>
void silu_backward_in(Tensor<const T> pre, Tensor<const T> d_y, Tensor<T> d_pre) {
  kernel::map(
      "bert_hpc::ops::silu_backward", pre, d_y, d_pre,
      KOKKOS_LAMBDA(float x, float d) { return d * silu_derivative(x); });
}

// y = max(x, 0)
template <class T>
void relu_forward_in(Tensor<const T> x, Tensor<T> y) {
  kernel::map(
      "bert_hpc::ops::relu_forward", x, y,
      KOKKOS_LAMBDA(std::int64_t, float value) { return value > 0.0f ? value : 0.0f; });
}

template <class T>
void relu_backward_in(Tensor<const T> y, Tensor<const T> d_y, Tensor<T> d_x) {
  kernel::map(
      "bert_hpc::ops::relu_backward", y, d_y, d_x,
      KOKKOS_LAMBDA(float value, float d) { return value > 0.0f ? d : 0.0f; });
}

// y = tanh(x)
template <class T>
void tanh_forward_in(Tensor<const T> x, Tensor<T> y) {
  kernel::map(
      "bert_hpc::ops::tanh_forward", x, y, KOKKOS_LAMBDA(std::int64_t, float value) { return fast_tanh(value); });
}

// d_x = d_y · (1 − y²)
template <class T>
void tanh_backward_in(Tensor<const T> y, Tensor<const T> d_y, Tensor<T> d_x) {
  kernel::map(
      "bert_hpc::ops::tanh_backward", y, d_y, d_x,
      KOKKOS_LAMBDA(float value, float d) { return d * (1.0f - value * value); });
}

}  // namespace

void add_bias(Matrix y, const float* bias) {
  core::with_type(y.type, [&]<class T>() { add_bias_in<T>(y.as<T>(), bias); });
}

void silu_forward(ConstMatrix pre, Matrix y) {
  core::with_type(pre.type, [&]<class T>() { silu_forward_in<T>(pre.as<T>(), y.as<T>()); });
}

void silu_backward(ConstMatrix pre, ConstMatrix d_y, Matrix d_pre) {
  core::with_type(pre.type, [&]<class T>() { silu_backward_in<T>(pre.as<T>(), d_y.as<T>(), d_pre.as<T>()); });
}

void gelu_forward(ConstMatrix pre, Matrix y) {
  core::with_type(pre.type, [&]<class T>() { gelu_forward_in<T>(pre.as<T>(), y.as<T>()); });
}

void bias_gelu_forward(Matrix pre, const float* bias, Matrix y) {
  core::with_type(pre.type, [&]<class T>() { bias_gelu_forward_in<T>(pre.as<T>(), bias, y.as<T>()); });
}

namespace {

void require_built(Activation activation) {
  core::require(activation == Activation::gelu || activation == Activation::gelu_tanh || activation == Activation::silu,
                "matrix product: an activation that is not built in");
}

}  // namespace

void finish(const Epilogue& epilogue, Matrix y) {
  if (epilogue.activation == Activation::none) {
    if (epilogue.bias != nullptr) add_bias(y, epilogue.bias);
    return;
  }
  require_built(epilogue.activation);
  if (epilogue.bias == nullptr) return activate(epilogue, y);
  if (epilogue.activation == Activation::gelu) return bias_gelu_forward(epilogue.pre, epilogue.bias, y);
  add_bias(epilogue.pre, epilogue.bias);
  activate(epilogue, y);
}

void finish(const InputEpilogue& epilogue, Matrix d_x) {
  if (epilogue.activation == Activation::none) return;
  require_built(epilogue.activation);
  if (epilogue.activation == Activation::gelu_tanh) return gelu_tanh_backward(epilogue.pre, d_x, d_x);
  if (epilogue.activation == Activation::silu) return silu_backward(epilogue.pre, d_x, d_x);
  gelu_backward(epilogue.pre, d_x, d_x);
}

void activate(const Epilogue& epilogue, Matrix y) {
  require_built(epilogue.activation);
  if (epilogue.activation == Activation::gelu_tanh) return gelu_tanh_forward(epilogue.pre, y);
  if (epilogue.activation == Activation::silu) return silu_forward(epilogue.pre, y);
  gelu_forward(epilogue.pre, y);
}

void gelu_backward(ConstMatrix pre, ConstMatrix d_y, Matrix d_pre) {
  core::with_type(pre.type, [&]<class T>() { gelu_backward_in<T>(pre.as<T>(), d_y.as<T>(), d_pre.as<T>()); });
}

void gelu_backward(ConstMatrix pre, ConstMatrix d_y, Matrix d_pre, float* sums, Write write, const ColumnSums& more) {
  core::require(more.x.columns == 0 || more.x.type == core::DataType::fp32,
                "gelu_backward: partial sums that are not floats");
  core::with_type(pre.type, [&]<class T>() {
    gelu_backward_sums_in<T>(pre.as<T>(), d_y.as<T>(), d_pre.as<T>(), {pre, {sums}}, write,
                             more.wanted() ? more : ColumnSums());
  });
}

bool fuses_row_sums() {
  return kernel::in_warps && fusion().row_sums;
}

void relu_forward(ConstMatrix x, Matrix y) {
  core::with_type(x.type, [&]<class T>() { relu_forward_in<T>(x.as<T>(), y.as<T>()); });
}

void relu_backward(ConstMatrix y, ConstMatrix d_y, Matrix d_x) {
  core::with_type(y.type, [&]<class T>() { relu_backward_in<T>(y.as<T>(), d_y.as<T>(), d_x.as<T>()); });
}

void tanh_forward(ConstMatrix x, Matrix y) {
  core::with_type(x.type, [&]<class T>() { tanh_forward_in<T>(x.as<T>(), y.as<T>()); });
}

void tanh_backward(ConstMatrix y, ConstMatrix d_y, Matrix d_x) {
  core::with_type(y.type, [&]<class T>() { tanh_backward_in<T>(y.as<T>(), d_y.as<T>(), d_x.as<T>()); });
}

}  // namespace bert_hpc::ops
