// A tile of C of R rows × two vectors, which stays in vector registers: for each word of terms, one vector pair of B is
// multiplied by R broadcast words of A (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication",
// 2008). This gives enough independent multiply-adds to hide their latency, and fewer loads than multiply-adds.
// Everything has internal linkage (see tile_kernels.cpp).
//
// Words has the types Word (of A and B) and Sum (of C), and the functions factor() and multiply_add().
#pragma once

#include "../tile_kernels.hpp"
#include "vector.hpp"

namespace bert_hpc::ops::cpu {
namespace {

// c (R, panel) with its initial value, plus k words of terms. If A is not packed, a_stride is its row stride.
template <class Words, int R, bool packed>
inline void tile(const typename Words::Word* __restrict a, std::int64_t a_stride,
                 const typename Words::Word* __restrict b, std::int64_t k, Begin begin, const typename Words::Sum* bias,
                 typename Words::Sum* __restrict c, std::int64_t c_stride) {
  using Sums = decltype(load(c));
  Sums left[R], right[R];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    if (begin == Begin::existing) {
      left[i] = load(c + i * c_stride);
      right[i] = load(c + i * c_stride + lanes);
    } else if (begin == Begin::bias) {
      left[i] = load(bias);
      right[i] = load(bias + lanes);
    } else {
      left[i] = right[i] = Sums{};
    }
  }
  for (std::int64_t l = 0; l < k; ++l) {
    const auto b0 = load(b), b1 = load(b + lanes);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const auto factor = Words::factor(packed ? a + i : a + i * a_stride);
      left[i] = Words::multiply_add(factor, b0, left[i]);
      right[i] = Words::multiply_add(factor, b1, right[i]);
    }
    a += packed ? tile_rows : 1;
    b += panel;
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    store(c + i * c_stride, left[i]);
    store(c + i * c_stride + lanes, right[i]);
  }
}

template <class Words, int R = tile_rows>
inline void tile_of_rows(std::int64_t rows, bool packed, const typename Words::Word* a, std::int64_t a_stride,
                         const typename Words::Word* b, std::int64_t k, Begin begin, const typename Words::Sum* bias,
                         typename Words::Sum* c, std::int64_t c_stride) {
  if (rows == R) {
    if (packed) return tile<Words, R, true>(a, a_stride, b, k, begin, bias, c, c_stride);
    return tile<Words, R, false>(a, a_stride, b, k, begin, bias, c, c_stride);
  }
  if constexpr (R > 1) tile_of_rows<Words, R - 1>(rows, packed, a, a_stride, b, k, begin, bias, c, c_stride);
}

}  // namespace
}  // namespace bert_hpc::ops::cpu
