// One row of a layer norm with bias, dropout and residual before it, forward and backward: the code of a CPU's thread.
#pragma once

#include "dropout_fill.hpp"
#include "kernel.hpp"
#include "row_sum.hpp"

namespace bert_hpc::ops {

/// The dropout decisions and scale of a row.
struct RowDropout {
  Dropout dropout;
  TokenRows rows;
  std::uint32_t threshold;
  float scale;

  RowDropout(const Dropout& site, const TokenRows& token_rows)
      : dropout(site),
        rows(token_rows),
        threshold(dropout_threshold(site.probability)),
        scale(dropout_scale(threshold)) {}

  /// Bits of columns [begin, begin + count) of a row.
  KOKKOS_INLINE_FUNCTION void fill(std::int64_t row, std::int64_t begin, std::int64_t count,
                                   std::uint16_t* bits) const {
    fill_dropout_bits(dropout, dropout.sample[rows.sequence[row]], static_cast<std::uint32_t>(rows.position[row]),
                      static_cast<std::uint32_t>(begin / 8), kernel::divide_up(count, 8), bits);
  }
};

/// z = residual + dropout(x + bias) for a range of columns, in place of x; returns Σ z.
template <bool with_bias, bool with_dropout, bool with_residual, class T>
KOKKOS_INLINE_FUNCTION float residual_run(std::int64_t count, const float* bias, const std::uint16_t* bits,
                                          std::uint32_t threshold, float scale, const T* residual, T* z) {
  return kernel::sum_of<float>(count, [=](std::int64_t j) {
    float value = z[j];
    if constexpr (with_bias) value += bias[j];
    if constexpr (with_dropout) value *= bits[j] >= threshold ? scale : 0.0f;
    if constexpr (with_residual) value += residual[j];
    return static_cast<float>(z[j] = value);  // as stored
  });
}

template <bool with_bias, bool with_dropout, class T>
KOKKOS_INLINE_FUNCTION float residual_run(std::int64_t count, const float* bias, const std::uint16_t* bits,
                                          std::uint32_t threshold, float scale, const T* residual, T* z) {
  return residual != nullptr
             ? residual_run<with_bias, with_dropout, true>(count, bias, bits, threshold, scale, residual, z)
             : residual_run<with_bias, with_dropout, false>(count, bias, bits, threshold, scale, residual, z);
}

/// As above, for a whole row; bias and residual may be null.
template <class T>
KOKKOS_INLINE_FUNCTION float residual_row(const RowDropout& site, std::int64_t row, std::int64_t columns,
                                          const float* bias, const T* residual, T* x) {
  std::uint16_t bits[kernel::dropout_columns];
  float sum = 0.0f;
  for (std::int64_t begin = 0; begin < columns; begin += kernel::dropout_columns) {
    const std::int64_t count = columns - begin < kernel::dropout_columns ? columns - begin : kernel::dropout_columns;
    const float* b = bias == nullptr ? nullptr : bias + begin;
    const T* r = residual == nullptr ? nullptr : residual + begin;
    T* z = x + begin;
    if (site.threshold > 0) {
      site.fill(row, begin, count, bits);
      sum += b != nullptr ? residual_run<true, true>(count, b, bits, site.threshold, site.scale, r, z)
                          : residual_run<false, true>(count, b, bits, site.threshold, site.scale, r, z);
    } else {
      sum += b != nullptr ? residual_run<true, false>(count, b, bits, site.threshold, site.scale, r, z)
                          : residual_run<false, false>(count, b, bits, site.threshold, site.scale, r, z);
    }
  }
  return sum;
}

/// d_x = dropout(d_z) for one row.
template <class T, class Z>
KOKKOS_INLINE_FUNCTION void dropout_row(const RowDropout& site, std::int64_t row, std::int64_t columns, const Z* d_z,
                                        T* d_x) {
  std::uint16_t bits[kernel::dropout_columns];
  for (std::int64_t begin = 0; begin < columns; begin += kernel::dropout_columns) {
    const std::int64_t count = columns - begin < kernel::dropout_columns ? columns - begin : kernel::dropout_columns;
    site.fill(row, begin, count, bits);
    apply_dropout(count, bits, site.threshold, site.scale, d_z + begin, d_x + begin);
  }
}

/// y = γ · (z − mean) · rstd + β for one row; β may be null.
template <class T>
KOKKOS_INLINE_FUNCTION void normalize_row(std::int64_t columns, const T* z, float mean, float rstd, const float* gamma,
                                          const float* beta, T* y) {
  if (beta == nullptr) {
#pragma omp simd
    for (std::int64_t j = 0; j < columns; ++j) y[j] = gamma[j] * ((z[j] - mean) * rstd);
    return;
  }
#pragma omp simd
  for (std::int64_t j = 0; j < columns; ++j) y[j] = gamma[j] * ((z[j] - mean) * rstd) + beta[j];
}

/// d_z of one row (the formula is in layer_norm.cpp), plus `more` unless it is null. centered: the norm subtracts the
/// mean.
template <bool centered, class T, class Z>
KOKKOS_INLINE_FUNCTION void normalize_row_backward(std::int64_t columns, const T* d_y, const T* z, float mean,
                                                   float rstd, const float* gamma, const T* more, Z* d_z) {
  const float inverse = 1.0f / static_cast<float>(columns);
  float sum = 0.0f;
  if constexpr (centered) {
    sum = inverse * kernel::sum_of<float>(columns, [=](std::int64_t j) { return d_y[j] * gamma[j]; });
  }
  const float product = inverse * rstd * kernel::sum_of<float>(columns, [=](std::int64_t j) {
                          return d_y[j] * gamma[j] * (z[j] - mean);
                        });
  if (more != nullptr) {
#pragma omp simd
    for (std::int64_t j = 0; j < columns; ++j) {
      d_z[j] = rstd * (d_y[j] * gamma[j] - sum - (z[j] - mean) * rstd * product) + more[j];
    }
    return;
  }
#pragma omp simd
  for (std::int64_t j = 0; j < columns; ++j) {
    d_z[j] = rstd * (d_y[j] * gamma[j] - sum - (z[j] - mean) * rstd * product);
  }
}

}  // namespace bert_hpc::ops
