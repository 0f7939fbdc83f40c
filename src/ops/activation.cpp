// Elementwise kernels and sums over rows; formulas stand above each.
#include "bert_hpc/ops/activation.hpp"

#include "bert_hpc/ops/vector_math.hpp"
#include "kernel.hpp"

namespace bert_hpc::ops {

// y_ij += bias_j
void add_bias(Tensor<float> y, const float* bias) {
  kernel::for_elements(
      "bert_hpc::ops::add_bias", y.rows, y.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) += bias[j]; });
}

// y = x · Φ(x)
void gelu_forward(Tensor<const float> pre, Tensor<float> y) {
  kernel::for_elements(
      "bert_hpc::ops::gelu_forward", pre.rows, pre.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) = gelu(pre(i, j)); });
}

// d_x = d_y · (Φ(x) + x · φ(x)), φ(x) = exp(−x² / 2) / √(2π)
void gelu_backward(Tensor<const float> pre, Tensor<const float> d_y, Tensor<float> d_pre) {
  kernel::for_elements(
      "bert_hpc::ops::gelu_backward", pre.rows, pre.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { d_pre(i, j) = d_y(i, j) * gelu_derivative(pre(i, j)); });
}

// y = tanh(x)
void tanh_forward(Tensor<const float> x, Tensor<float> y) {
  kernel::for_elements(
      "bert_hpc::ops::tanh_forward", x.rows, x.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) = fast_tanh(x(i, j)); });
}

// d_x = d_y · (1 − y²)
void tanh_backward(Tensor<const float> y, Tensor<const float> d_y, Tensor<float> d_x) {
  kernel::for_elements(
      "bert_hpc::ops::tanh_backward", y.rows, y.columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        const float value = y(i, j);
        d_x(i, j) = d_y(i, j) * (1.0f - value * value);
      });
}

// y = x
void copy(Tensor<const float> x, Tensor<float> y) {
  kernel::for_elements(
      "bert_hpc::ops::copy", x.rows, x.columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) = x(i, j); });
}

// y += x
void add(Tensor<const float> x, Tensor<float> y) {
  kernel::for_elements(
      "bert_hpc::ops::add", x.rows, x.columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) += x(i, j); });
}

// sums_j = or += Σ_i x_ij
void column_sums(Tensor<const float> x, float* sums, Write write) {
  constexpr std::int64_t strip = kernel::strip_columns;
  const bool replace = write == Write::replace;
  kernel::for_items(
      "bert_hpc::ops::column_sums", kernel::divide_up(x.columns, strip), KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t begin = item * strip;
        const std::int64_t width = x.columns - begin < strip ? x.columns - begin : strip;
        float total[strip] = {};
        for (std::int64_t block = 0; block < x.rows; block += kernel::sum_block_rows) {
          const std::int64_t end = block + kernel::sum_block_rows < x.rows ? block + kernel::sum_block_rows : x.rows;
          float partial[strip] = {};
          if (width == strip) {  // the width known to the compiler keeps the partial sums in registers
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
}

// y_i = x_rows(i)
void gather_rows(Tensor<const float> x, const std::int32_t* rows, Tensor<float> y) {
  kernel::for_elements(
      "bert_hpc::ops::gather_rows", y.rows, y.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) = x(rows[i], j); });
}

// y_rows(i) += x_i
void scatter_add_rows(Tensor<const float> x, const std::int32_t* rows, Tensor<float> y) {
  kernel::for_elements(
      "bert_hpc::ops::scatter_add_rows", x.rows, x.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(rows[i], j) += x(i, j); });
}

}  // namespace bert_hpc::ops
