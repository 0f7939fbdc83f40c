// Bias, activations and sums over rows; the formula is above each kernel.
#include "bert_hpc/ops/activation.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/fusion.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"
#include "kernel_sums.hpp"
#include "layer_norm_row.hpp"

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
void gelu_backward_sums_in(Tensor<const T> pre, Tensor<const T> d_y, Tensor<T> d_pre, Tensor<float> partial) {
  kernel::for_partial_sums({"bert_hpc::ops::gelu_backward_sums", kernel::bytes_of<T, T, T>(pre.size())}, pre.rows,
                           pre.columns, partial, packs::GeluBackwardTerm<T>{pre, d_y, d_pre});
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

// sums_j = or += Σ_i x_ij
template <class T>
void column_sums_in(Tensor<const T> x, float* sums, Write write) {
  const bool replace = write == Write::replace;
#if BERT_HPC_WARPS
  kernel::for_strips<1>(
      {"bert_hpc::ops::column_sums", kernel::bytes_of<T>(x.size())}, x.rows, x.columns, packs::ColumnTerm<T>{x},
      KOKKOS_LAMBDA(std::int64_t j, int, float total) { sums[j] = replace ? total : sums[j] + total; });
#else
  constexpr std::int64_t strip = kernel::strip_columns;
  kernel::for_items(
      {"bert_hpc::ops::column_sums", kernel::bytes_of<T>(x.size())}, kernel::divide_up(x.columns, strip),
      KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t begin = item * strip;
        const std::int64_t width = x.columns - begin < strip ? x.columns - begin : strip;
        float total[strip] = {};
        for (std::int64_t block = 0; block < x.rows; block += kernel::sum_block_rows) {
          const std::int64_t end = block + kernel::sum_block_rows < x.rows ? block + kernel::sum_block_rows : x.rows;
          float partial[strip] = {};
          if (width == strip) {  // a compile-time width keeps the partial sums in registers
            for (std::int64_t i = block; i < end; ++i) {
              for (std::int64_t j = 0; j < strip; ++j) partial[j] += x(i, begin + j);
            }
          } else {
            for (std::int64_t i = block; i < end; ++i) {
              for (std::int64_t j = 0; j < width; ++j) partial[j] += x(i, begin + j);
            }
          }
          for (std::int64_t j = 0; j < strip; ++j) total[j] += partial[j];
        }
        for (std::int64_t j = 0; j < width; ++j) sums[begin + j] = replace ? total[j] : sums[begin + j] + total[j];
      });
#endif
}

/// At most three vectors, some of which may be null.
struct Vectors {
  float *first, *second, *third;

  /// Element j of all, each of `columns`.
  KOKKOS_INLINE_FUNCTION void write(std::int64_t j, std::int64_t columns, bool replace, float total) const {
    const std::int64_t k = j / columns;
    float* const sums = k == 0 ? first : k == 1 ? second : third;
    if (sums != nullptr) sums[j % columns] = replace ? total : sums[j % columns] + total;
  }
};

// sums_k_j = or += Σ_i partial_i,k·columns+j
void add_partial_sums_in(Tensor<const float> partial, std::int64_t columns, Vectors sums, Write write) {
  const bool replace = write == Write::replace;
#if BERT_HPC_WARPS
  kernel::for_strips<1>(
      {"bert_hpc::ops::add_partial_sums", kernel::bytes_of<float>(partial.size())}, partial.rows, partial.columns,
      packs::ColumnTerm<float>{partial},
      KOKKOS_LAMBDA(std::int64_t j, int, float total) { sums.write(j, columns, replace, total); });
#else
  kernel::for_items(
      {"bert_hpc::ops::add_partial_sums", kernel::bytes_of<float>(partial.size())}, partial.columns,
      KOKKOS_LAMBDA(std::int64_t j) {
        float total = 0.0f;
        for (std::int64_t i = 0; i < partial.rows; ++i) total += partial(i, j);
        sums.write(j, columns, replace, total);
      });
#endif
}

}  // namespace

void add_bias(Matrix y, const float* bias) {
  core::with_type(y.type, [&]<class T>() { add_bias_in<T>(y.as<T>(), bias); });
}

void gelu_forward(ConstMatrix pre, Matrix y) {
  core::with_type(pre.type, [&]<class T>() { gelu_forward_in<T>(pre.as<T>(), y.as<T>()); });
}

void bias_gelu_forward(Matrix pre, const float* bias, Matrix y) {
  core::with_type(pre.type, [&]<class T>() { bias_gelu_forward_in<T>(pre.as<T>(), bias, y.as<T>()); });
}

namespace {

void require_built(Activation activation) {
  core::require(activation == Activation::gelu, "matrix product: an activation that is not built in");
}

}  // namespace

void finish(const Epilogue& epilogue, Matrix y) {
  if (epilogue.activation == Activation::none) {
    if (epilogue.bias != nullptr) add_bias(y, epilogue.bias);
    return;
  }
  require_built(epilogue.activation);
  if (epilogue.bias == nullptr) return activate(epilogue, y);
  bias_gelu_forward(epilogue.pre, epilogue.bias, y);
}

void finish(const InputEpilogue& epilogue, Matrix d_x) {
  if (epilogue.activation == Activation::none) return;
  require_built(epilogue.activation);
  gelu_backward(epilogue.pre, d_x, d_x);
}

void activate(const Epilogue& epilogue, Matrix y) {
  require_built(epilogue.activation);
  gelu_forward(epilogue.pre, y);
}

void gelu_backward(ConstMatrix pre, ConstMatrix d_y, Matrix d_pre) {
  core::with_type(pre.type, [&]<class T>() { gelu_backward_in<T>(pre.as<T>(), d_y.as<T>(), d_pre.as<T>()); });
}

void gelu_backward(ConstMatrix pre, ConstMatrix d_y, Matrix d_pre, Tensor<float> partial) {
  core::require(partial.rows == gelu_sum_blocks(pre.rows) && partial.columns == pre.columns,
                "gelu_backward: partial sums of another size");
  core::with_type(pre.type,
                  [&]<class T>() { gelu_backward_sums_in<T>(pre.as<T>(), d_y.as<T>(), d_pre.as<T>(), partial); });
}

std::int64_t gelu_sum_blocks(std::int64_t rows) {
  return packs::column_sum_blocks(rows);
}

bool fuses_row_sums() {
  return kernel::in_warps && fusion().row_sums;
}

void add_partial_sums(Tensor<const float> partial, std::span<float* const> sums, Write write) {
  constexpr std::size_t most = 3;
  core::require(!sums.empty() && sums.size() <= most, "add_partial_sums: too many vectors");
  const auto count = static_cast<std::int64_t>(sums.size());
  add_partial_sums_in(partial, partial.columns / count,
                      {sums[0], sums[count > 1 ? 1 : 0], sums[static_cast<std::size_t>(count - 1)]}, write);
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

void column_sums(ConstMatrix x, float* sums, Write write) {
  core::with_type(x.type, [&]<class T>() { column_sums_in<T>(x.as<T>(), sums, write); });
}

}  // namespace bert_hpc::ops
