// Sums over the rows of matrices, in a fixed order for any number of threads: gradients of biases, and of the
// parameters whose sums a backward kernel began (ops/layer_norm.hpp).
#pragma once

#include <array>
#include <span>

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/ops/epilogue.hpp"

namespace bert_hpc::ops {

using core::ConstMatrix;
using core::Tensor;

/// A matrix whose columns are summed: sums[k][j] = or += Σ_i x(i, k·n + j) for `vectors` vectors (at most three) of n =
/// x.columns / vectors elements. Vectors that are null are not wanted.
struct ColumnSums {
  ConstMatrix x;
  std::array<float*, 3> sums{};
  int vectors = 1;

  bool wanted() const { return sums[0] != nullptr || sums[1] != nullptr || sums[2] != nullptr; }
};

/// All sums in one launch: of at most two matrices of one type, and of partial sums in fp32, which may be empty.
void add_column_sums(std::span<const ColumnSums> matrices, const ColumnSums& partial, Write write);

/// sums = or += column sums of x. x (rows, columns), sums (columns) or null.
void column_sums(ConstMatrix x, float* sums, Write write);

}  // namespace bert_hpc::ops
