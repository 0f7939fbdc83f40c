// Destinations of sums over rows: up to three vectors. Only kernel files include this header.
#pragma once

#include "bert_hpc/ops/column_sums.hpp"
#include "kernel_strips.hpp"

namespace bert_hpc::ops::kernel {

/// Writes the sum of a column to its vector, or adds it.
struct FinishSums {
  FinishSums(const ColumnSums& sums, Write write)
      : columns(sums.x.columns / sums.vectors), replace(write == Write::replace) {
    for (std::size_t k = 0; k < sums.sums.size(); ++k) vectors[k] = sums.sums[k];
  }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t column, int, float total) const {
    const std::int64_t k = column / columns, j = column - k * columns;
    float* const sums = k == 0 ? vectors[0] : k == 1 ? vectors[1] : vectors[2];
    if (sums != nullptr) sums[j] = replace ? total : sums[j] + total;
  }

  std::int64_t columns;  // of a vector
  bool replace;
  float* vectors[3];
};

/// The sums of a matrix of T, as a part of a launch.
template <class T>
auto sums_of(const ColumnSums& sums, Write write) {
  const core::Tensor<const T> x = sums.x.columns == 0 ? core::Tensor<const T>() : sums.x.as<T>();
  return strip_sums<1>(x.rows, x.columns, packs::ColumnTerm<T>{x}, FinishSums(sums, write));
}

}  // namespace bert_hpc::ops::kernel
