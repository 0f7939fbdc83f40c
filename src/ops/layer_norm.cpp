// Layer normalisation with the bias, dropout and residual before it. A row is read from memory once: z, its mean, its
// variance (around the mean: two sums over a row in cache, no cancellation) and y are computed while it is there.
#include "bert_hpc/ops/layer_norm.hpp"

#include <cmath>

#include "dropout_fill.hpp"
#include "kernel.hpp"

namespace bert_hpc::ops {
namespace {

/// z = residual + dropout(x + bias) in place of x, returning Σ z. `bias` and `residual` may be null.
struct ResidualRow {
  Dropout dropout;
  TokenRows rows;
  std::uint32_t threshold;
  float scale;
  const float* bias;

  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t row, float* x, const float* residual,
                                          std::int64_t columns) const {
    std::uint16_t bits[kernel::dropout_columns];
    float sum = 0.0f;
    for (std::int64_t begin = 0; begin < columns; begin += kernel::dropout_columns) {
      const std::int64_t count = columns - begin < kernel::dropout_columns ? columns - begin : kernel::dropout_columns;
      float* z = x + begin;
      if (bias != nullptr) {
        const float* b = bias + begin;
#pragma omp simd
        for (std::int64_t j = 0; j < count; ++j) z[j] += b[j];
      }
      if (threshold > 0) {
        fill_dropout_bits(dropout, dropout.sample[rows.sequence[row]], static_cast<std::uint32_t>(rows.position[row]),
                          static_cast<std::uint32_t>(begin / 8), kernel::divide_up(count, 8), bits);
#pragma omp simd
        for (std::int64_t j = 0; j < count; ++j) z[j] = bits[j] >= threshold ? z[j] * scale : 0.0f;
      }
      if (residual != nullptr) {
        const float* r = residual + begin;
#pragma omp simd
        for (std::int64_t j = 0; j < count; ++j) z[j] += r[j];
      }
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < count; ++j) sum += z[j];
    }
    return sum;
  }
};

/// d_x = dropout(d_z) of one row.
KOKKOS_INLINE_FUNCTION void dropout_row(const Dropout& dropout, const TokenRows& rows, std::uint32_t threshold,
                                        float scale, std::int64_t row, const float* d_z, float* d_x,
                                        std::int64_t columns) {
  std::uint16_t bits[kernel::dropout_columns];
  for (std::int64_t begin = 0; begin < columns; begin += kernel::dropout_columns) {
    const std::int64_t count = columns - begin < kernel::dropout_columns ? columns - begin : kernel::dropout_columns;
    fill_dropout_bits(dropout, dropout.sample[rows.sequence[row]], static_cast<std::uint32_t>(rows.position[row]),
                      static_cast<std::uint32_t>(begin / 8), kernel::divide_up(count, 8), bits);
    const float* in = d_z + begin;
    float* out = d_x + begin;
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) out[j] = bits[j] >= threshold ? in[j] * scale : 0.0f;
  }
}

}  // namespace

// z = r + dropout(x + b), μ = Σ z / n, rstd = 1 / √(Σ (z − μ)² / n + ε), y = γ · (z − μ) · rstd + β
void residual_layer_norm_forward(const Dropout& dropout, const TokenRows& rows, Tensor<float> x, const float* bias,
                                 Tensor<const float> residual, const float* gamma, const float* beta, float epsilon,
                                 Tensor<float> y, float* mean, float* rstd) {
  const std::uint32_t threshold = dropout_threshold(dropout.probability);
  const ResidualRow residual_row{dropout, rows, threshold, dropout_scale(threshold), bias};
  kernel::for_items(
      "bert_hpc::ops::residual_layer_norm_forward", x.rows, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t columns = x.columns;
        float* z = x.row(i);
        const float inverse = 1.0f / static_cast<float>(columns);
        const float center =
            residual_row(i, z, residual.data == nullptr ? nullptr : residual.row(i), columns) * inverse;
        float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
        for (std::int64_t j = 0; j < columns; ++j) squares += (z[j] - center) * (z[j] - center);
        const float factor = 1.0f / std::sqrt(squares * inverse + epsilon);
        float* out = y.row(i);
#pragma omp simd
        for (std::int64_t j = 0; j < columns; ++j) out[j] = gamma[j] * ((z[j] - center) * factor) + beta[j];
        mean[i] = center;
        rstd[i] = factor;
      });
}

// With ẑ = (z − μ) · rstd and g = d_y ∘ γ:  d_z = rstd · (g − Σ g / n − ẑ · Σ (g ∘ ẑ) / n)
void residual_layer_norm_backward(const Dropout& dropout, const TokenRows& rows, Tensor<const float> d_y,
                                  Tensor<const float> z, const float* gamma, const float* mean, const float* rstd,
                                  Tensor<float> d_z, Tensor<float> d_x) {
  const Dropout site = dropout;
  const TokenRows r = rows;
  const std::uint32_t threshold = dropout_threshold(dropout.probability);
  const float scale = dropout_scale(threshold);
  const bool with_dropout = threshold > 0 && d_x.data != nullptr;
  const bool copied = threshold == 0 && d_x.data != nullptr && d_x.data != d_z.data;
  kernel::for_items(
      "bert_hpc::ops::residual_layer_norm_backward", z.rows, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t columns = z.columns;
        const float* in = d_y.row(i);
        const float* zi = z.row(i);
        float* out = d_z.row(i);
        const float center = mean[i], factor = rstd[i];
        const float inverse = 1.0f / static_cast<float>(columns);
        float sum = 0.0f, product = 0.0f;
#pragma omp simd reduction(+ : sum, product)
        for (std::int64_t j = 0; j < columns; ++j) {
          const float g = in[j] * gamma[j];
          sum += g;
          product += g * ((zi[j] - center) * factor);
        }
        sum *= inverse;
        product *= inverse;
#pragma omp simd
        for (std::int64_t j = 0; j < columns; ++j) {
          out[j] = factor * (in[j] * gamma[j] - sum - (zi[j] - center) * factor * product);
        }
        if (with_dropout) dropout_row(site, r, threshold, scale, i, out, d_x.row(i), columns);
        if (copied) {
          float* copy = d_x.row(i);
          for (std::int64_t j = 0; j < columns; ++j) copy[j] = out[j];
        }
      });
}

// d_γ_j = or += Σ_i d_y_ij · ẑ_ij,  d_β_j = or += Σ_i d_y_ij
void layer_norm_backward_weight(Tensor<const float> d_y, Tensor<const float> z, const float* mean, const float* rstd,
                                float* d_gamma, float* d_beta, Write write) {
  constexpr std::int64_t strip = kernel::strip_columns;
  const bool replace = write == Write::replace;
  kernel::for_items(
      "bert_hpc::ops::layer_norm_backward_weight", kernel::divide_up(z.columns, strip),
      KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t begin = item * strip;
        const std::int64_t width = z.columns - begin < strip ? z.columns - begin : strip;
        float total_gamma[strip] = {}, total_beta[strip] = {};
        for (std::int64_t block = 0; block < z.rows; block += kernel::sum_block_rows) {
          const std::int64_t end = block + kernel::sum_block_rows < z.rows ? block + kernel::sum_block_rows : z.rows;
          float part_gamma[strip] = {}, part_beta[strip] = {};
          for (std::int64_t i = block; i < end; ++i) {
            const float center = mean[i], factor = rstd[i];
            const float* g = d_y.row(i) + begin;
            const float* zi = z.row(i) + begin;
            if (width == strip) {  // the width known to the compiler
              for (std::int64_t j = 0; j < strip; ++j) {
                part_gamma[j] += g[j] * ((zi[j] - center) * factor);
                part_beta[j] += g[j];
              }
            } else {
              for (std::int64_t j = 0; j < width; ++j) {
                part_gamma[j] += g[j] * ((zi[j] - center) * factor);
                part_beta[j] += g[j];
              }
            }
          }
          for (std::int64_t j = 0; j < strip; ++j) {
            total_gamma[j] += part_gamma[j];
            total_beta[j] += part_beta[j];
          }
        }
        for (std::int64_t j = 0; j < width; ++j) {
          d_gamma[begin + j] = replace ? total_gamma[j] : d_gamma[begin + j] + total_gamma[j];
          d_beta[begin + j] = replace ? total_beta[j] : d_beta[begin + j] + total_beta[j];
        }
      });
}

}  // namespace bert_hpc::ops
