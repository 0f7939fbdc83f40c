// The small gemm of attention: C (+)= A·B, where A is read word by word (words.hpp; any strides, so also transposed)
// and B is in panels of two vectors. An element of C is always summed over k in order with fused multiply-adds,
// independent of its tile, so its bits do not depend on how many rows are computed together. (Goto and van de Geijn,
// "Anatomy of high-performance matrix multiplication", 2008, for the register blocking.)
#pragma once

#include <cstdint>

#include "words.hpp"

namespace bert_hpc::ops::cpu {
namespace {

enum class Into { replace, accumulate, scale_rows };

struct IndexRange {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

/// A (rows, depth) given by its strides, B in panels of (depth, panel), both in words; C (rows, columns). Begins
/// and ends of ranges ascend from row to row: a tile's range goes from its first row's begin to its last row's end.
struct Product {
  std::int64_t rows, columns, depth;
  const float* a;
  std::int64_t a_row, a_depth;  ///< stride in words from one row to the next, from one k to the next
  const float* b;
  std::int64_t b_depth, b_panel;  ///< stride in words from one k to the next, from one panel to the next
  float* c;
  std::int64_t c_row;
  const float* row_scale;                      ///< (rows), for Into::scale_rows
  const IndexRange* needed_columns = nullptr;  ///< (rows): a tile that has none of them stays unwritten; null: all
  const IndexRange* terms = nullptr;           ///< (rows): the other words of A are 0 and left out; null: all
};

/// Not inlined: some hundred instances would use up GCC's limit on the growth of a file, and it would then stop
/// inlining small functions.
template <class Words, Into into, int rows, int vectors>
[[gnu::noinline]] void tile(const Product& p, std::int64_t first_row, const float* b, float* c, std::int64_t c_row) {
  Vector sums[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int n = 0; n < vectors; ++n) sums[i][n] = Vector{};
  }
  const float* a = p.a + first_row * p.a_row;
  for (std::int64_t k = 0; k < p.depth; ++k) {
    Vector bk[vectors];
#pragma GCC unroll 2
    for (int n = 0; n < vectors; ++n) bk[n] = load(b + n * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const auto ak = Words::factor(a + i * p.a_row);
#pragma GCC unroll 2
      for (int n = 0; n < vectors; ++n) sums[i][n] = Words::multiply_add(ak, bk[n], sums[i][n]);
    }
    a += p.a_depth;
    b += p.b_depth;
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int n = 0; n < vectors; ++n) {
      float* to = c + i * c_row + n * lanes;
      if constexpr (into == Into::accumulate) sums[i][n] += load(to);
      if constexpr (into == Into::scale_rows) sums[i][n] *= broadcast(p.row_scale[first_row + i]);
      store(to, sums[i][n]);
    }
  }
}

template <class Words, Into into, int vectors, int rows = tile_rows>
inline void tile_of(std::int64_t row_count, const Product& p, std::int64_t first_row, const float* b, float* c,
                    std::int64_t c_row) {
  if (row_count == rows) {
    tile<Words, into, rows, vectors>(p, first_row, b, c, c_row);
  } else if constexpr (rows > 1) {
    tile_of<Words, into, vectors, rows - 1>(row_count, p, first_row, b, c, c_row);
  }
}

/// A tile whose last columns do not fill a vector: computed through a small copy.
template <class Words, Into into>
void ragged_tile(std::int64_t row_count, std::int64_t columns, const Product& p, std::int64_t first_row, const float* b,
                 float* c) {
  alignas(64) float copy[tile_rows * panel] = {};
  if (into == Into::accumulate) {
    for (std::int64_t i = 0; i < row_count; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) copy[i * panel + j] = c[i * p.c_row + j];
    }
  }
  tile_of<Words, into, 2>(row_count, p, first_row, b, copy, panel);
  for (std::int64_t i = 0; i < row_count; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) c[i * p.c_row + j] = copy[i * panel + j];
  }
}

/// The range of the tile of rows [first, first + count).
inline IndexRange range_of_tile(const IndexRange* ranges, std::int64_t first, std::int64_t count) {
  const std::int64_t begin = ranges[first].begin, end = ranges[first + count - 1].end;
  return {begin, end > begin ? end : begin};
}

/// multiply(); `ranges`: the product has ranges of rows.
template <Into into, class Words, bool ranges>
void multiply_tiles(const Product& p) {
  const std::int64_t tiles = (p.rows + tile_rows - 1) / tile_rows;
  Product own = p;
  for (std::int64_t j = 0; j < p.columns; j += panel) {
    const float* b = p.b + j / panel * p.b_panel;
    const std::int64_t columns = p.columns - j < panel ? p.columns - j : panel;
    for (std::int64_t t = 0; t < tiles; ++t) {  // tiles of similar height
      const std::int64_t first = t * p.rows / tiles, count = (t + 1) * p.rows / tiles - first;
      const Product* from = &p;
      const float* b_of_tile = b;
      if constexpr (ranges) {
        if (p.needed_columns != nullptr) {
          const IndexRange needed = range_of_tile(p.needed_columns, first, count);
          if (needed.begin >= j + columns || needed.end <= j) continue;
        }
        if (p.terms != nullptr) {
          const IndexRange terms = range_of_tile(p.terms, first, count);
          own.a = p.a + terms.begin * p.a_depth;
          own.depth = terms.size();
          b_of_tile += terms.begin * p.b_depth;
          from = &own;
        }
      }
      float* c = p.c + first * p.c_row + j;
      if (columns == panel) {
        tile_of<Words, into, 2>(count, *from, first, b_of_tile, c, p.c_row);
      } else if (columns == lanes) {
        tile_of<Words, into, 1>(count, *from, first, b_of_tile, c, p.c_row);
      } else {
        ragged_tile<Words, into>(count, columns, *from, first, b_of_tile, c);
      }
    }
  }
}

/// C = A·B, += A·B, or row_scale ∘ A·B. If the columns do not fill whole vectors, B must be in padded panels.
template <Into into, class Words = FloatWords>
void multiply(const Product& p) {
  if (p.needed_columns == nullptr && p.terms == nullptr) return multiply_tiles<into, Words, false>(p);
  multiply_tiles<into, Words, true>(p);
}

}  // namespace
}  // namespace bert_hpc::ops::cpu
