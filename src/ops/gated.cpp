// Gated linear units. Activations are recomputed in the backward pass from what forward keeps.
#include "bert_hpc/ops/gated.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using core::Tensor;

struct Gelu {
  template <class T>
  static KOKKOS_INLINE_FUNCTION float value(float x) {
    return gelu_of<T>(x);
  }
  template <class T>
  static KOKKOS_INLINE_FUNCTION float derivative(float x) {
    return gelu_derivative_of<T>(x);
  }
};

struct Silu {
  template <class T>
  static KOKKOS_INLINE_FUNCTION float value(float x) {
    return silu(x);
  }
  template <class T>
  static KOKKOS_INLINE_FUNCTION float derivative(float x) {
    return silu_derivative(x);
  }
};

template <class F, class T>
void forward_in(Tensor<const T> pre, Tensor<T> y) {
  const kernel::Label label("bert_hpc::ops::gated_forward", kernel::bytes_of<T, T, T>(y.size()));
  const std::int64_t columns = y.columns;
#if BERT_HPC_WARPS
  kernel::for_packs(
      label, y.rows, columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t begin, int count) {
        float a[packs::width], b[packs::width];
        packs::load(pre.row(i) + begin, count, a);
        packs::load(pre.row(i) + columns + begin, count, b);
        for (int j = 0; j < packs::width; ++j) a[j] = F::template value<T>(a[j]) * b[j];
        packs::store(a, count, y.row(i) + begin);
      });
#else
  kernel::for_elements(
      label, y.rows, columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        y(i, j) = F::template value<T>(static_cast<float>(pre(i, j))) * static_cast<float>(pre(i, columns + j));
      });
#endif
}

template <class F, class T>
void backward_in(Tensor<const T> pre, Tensor<const T> d_y, Tensor<T> d_pre) {
  const kernel::Label label("bert_hpc::ops::gated_backward", kernel::bytes_of<T, T, T, T, T>(d_y.size()));
  const std::int64_t columns = d_y.columns;
#if BERT_HPC_WARPS
  kernel::for_packs(
      label, d_y.rows, columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t begin, int count) {
        float a[packs::width], b[packs::width], d[packs::width];
        packs::load(pre.row(i) + begin, count, a);
        packs::load(pre.row(i) + columns + begin, count, b);
        packs::load(d_y.row(i) + begin, count, d);
        for (int j = 0; j < packs::width; ++j) {
          const float x = a[j];
          a[j] = d[j] * b[j] * F::template derivative<T>(x);
          b[j] = d[j] * F::template value<T>(x);
        }
        packs::store(a, count, d_pre.row(i) + begin);
        packs::store(b, count, d_pre.row(i) + columns + begin);
      });
#else
  kernel::for_elements(
      label, d_y.rows, columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        const auto a = static_cast<float>(pre(i, j)), b = static_cast<float>(pre(i, columns + j));
        const auto d = static_cast<float>(d_y(i, j));
        d_pre(i, j) = d * b * F::template derivative<T>(a);
        d_pre(i, columns + j) = d * F::template value<T>(a);
      });
#endif
}

template <class Call>
void with_activation(Activation activation, const Call& call) {
  core::require(activation == Activation::gelu || activation == Activation::silu,
                "gate: an activation that is not built in");
  if (activation == Activation::silu) return call.template operator()<Silu>();
  call.template operator()<Gelu>();
}

}  // namespace

void gated_forward(Activation activation, core::ConstMatrix pre, core::Matrix y) {
  core::require(pre.columns == 2 * y.columns && pre.rows == y.rows, "gate: shapes differ");
  with_activation(activation, [&]<class F>() {
    core::with_type(pre.type, [&]<class T>() { forward_in<F, T>(pre.as<T>(), y.as<T>()); });
  });
}

void gated_backward(Activation activation, core::ConstMatrix pre, core::ConstMatrix d_y, core::Matrix d_pre) {
  core::require(pre.columns == 2 * d_y.columns && d_pre.columns == pre.columns && d_pre.rows == d_y.rows,
                "gate: shapes differ");
  with_activation(activation, [&]<class F>() {
    core::with_type(pre.type, [&]<class T>() { backward_in<F, T>(pre.as<T>(), d_y.as<T>(), d_pre.as<T>()); });
  });
}

}  // namespace bert_hpc::ops
