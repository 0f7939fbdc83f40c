// What adapters with magnitudes (layers/low_rank_adapter.hpp) need: norms of the rows of a sum of matrices that is
// never stored, factors of columns, and the gradient of such factors.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/ops/epilogue.hpp"

namespace bert_hpc::ops {

using core::ConstMatrix;
using core::Matrix;
using core::Tensor;

/// w + scale·bᵀ·a. w (out, in), a (rank, in), b (rank, out).
struct LowRankSum {
  Tensor<const float> w{}, a{}, b{};
  float scale = 1;
};

/// norms = ‖row‖ of the sum, and factors = magnitudes / norms, 0 if a norm is 0. All (out); magnitudes and factors
/// may be null. Squares are added in double and in a fixed order.
void row_norms(const LowRankSum& sum, const float* magnitudes, float* norms, float* factors);

/// squares (out) = ‖row‖² of the sum: those of some columns of a matrix, to be added up.
void row_squares(const LowRankSum& sum, float* squares);
/// The rest of row_norms(), in place: `norms` (rows) has the squares.
void finish_row_norms(std::int64_t rows, const float* magnitudes, float* norms, float* factors);

/// (factors + shift) ∘ x + bias, a factor for each column.
struct ColumnScale {
  const float* factors;  ///< (columns)
  float shift = 0;
  const float* bias = nullptr;  ///< (columns) or null
};
/// y = or += it. Shapes equal; y may be x.
void scale_columns(const ColumnScale& scale, ConstMatrix x, Matrix y, Write write);

/// sums_j += Σ_i x_ij·y_ij / divisors_j, 0 if a divisor is 0. Rows are added in a fixed order. Shapes of x and y
/// equal, divisors and sums (columns).
void add_column_products(ConstMatrix x, ConstMatrix y, const float* divisors, float* sums);

}  // namespace bert_hpc::ops
