// Vectors as wide as the instruction set this file is compiled for, and the one small matrix product on them that
// attention is made of: C (+)= A·B with A read element by element (any strides, so also transposed) and B in panels of
// two vectors. An element of C is always summed over k in order with fused multiply-adds, whatever the tile it falls
// into, so its bits do not depend on how many rows are computed together. (Goto and van de Geijn, "Anatomy of
// high-performance matrix multiplication", 2008, for the register blocking.)
#pragma once

#include <cstdint>

namespace bert_hpc::ops::cpu {
namespace {

#if defined(__AVX512F__)
constexpr std::int64_t lanes = 16, tile_rows = 12;
#elif defined(__AVX2__)
constexpr std::int64_t lanes = 8, tile_rows = 6;
#else
constexpr std::int64_t lanes = 4, tile_rows = 6;
#endif
constexpr std::int64_t panel = 2 * lanes;

typedef float Vector __attribute__((vector_size(4 * lanes)));
typedef float UnalignedVector __attribute__((vector_size(4 * lanes), aligned(4), may_alias));
typedef std::int32_t IntVector __attribute__((vector_size(4 * lanes)));
typedef std::uint16_t UnalignedShorts __attribute__((vector_size(2 * lanes), aligned(2), may_alias));

inline Vector load(const float* p) {
  return *reinterpret_cast<const UnalignedVector*>(p);
}
inline void store(float* p, Vector x) {
  *reinterpret_cast<UnalignedVector*>(p) = x;
}
inline Vector broadcast(float x) {
  return x - Vector{};
}
inline Vector larger(Vector a, Vector b) {
  return a > b ? a : b;
}

/// Lanes are folded by halves: a fixed order.
inline float sum_of_lanes(Vector x) {
  float parts[lanes];
  __builtin_memcpy(parts, &x, sizeof x);
  for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) parts[l] += parts[l + half];
  }
  return parts[0];
}
inline float largest_lane(Vector x) {
  float parts[lanes];
  __builtin_memcpy(parts, &x, sizeof x);
  for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) parts[l] = parts[l] > parts[l + half] ? parts[l] : parts[l + half];
  }
  return parts[0];
}

/// All bits set in lanes below `count`.
inline IntVector lanes_below(std::int64_t count) {
  IntVector index;
  for (std::int64_t l = 0; l < lanes; ++l) index[l] = static_cast<std::int32_t>(l);
  return index < static_cast<std::int32_t>(count);
}

/// exp(x) for x ≤ 0 (and a little above), as ops/vector_math.hpp's fast_exp, but held at exp(−87.3) = 1.2e-38 below.
inline Vector exp_of_negative(Vector x) {
  constexpr float shift = 12582912.0f;  // 1.5·2^23: adding it leaves the nearest integer in the lowest bits
  const Vector low = broadcast(-87.3f);
  const Vector t = x < low ? low : x;
  const Vector shifted = t * 1.44269504f + shift;
  const Vector n = shifted - shift;
  const Vector r = n * -1.42860677e-6f + (n * -0.693145752f + t);
  Vector p = r * 0.00138131436f + 0.00836941879f;
  p = p * r + 0.041668456f;
  p = p * r + 0.166665152f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const IntVector exponent = (reinterpret_cast<IntVector>(shifted) << 23) + 0x3F800000;
  return p * reinterpret_cast<Vector>(exponent);
}

enum class Into { replace, accumulate, scale_rows };

/// A (rows, depth) by its strides, B panels of (depth, panel), C (rows, columns).
struct Product {
  std::int64_t rows, columns, depth;
  const float* a;
  std::int64_t a_row, a_depth;  ///< elements between neighbours in a row, along the depth
  const float* b;
  std::int64_t b_depth, b_panel;  ///< elements from one k to the next, from one panel to the next
  float* c;
  std::int64_t c_row;
  const float* row_scale;  ///< (rows), for Into::scale_rows
};

template <Into into, int rows, int vectors>
inline void tile(const Product& p, std::int64_t first_row, const float* b, float* c, std::int64_t c_row) {
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
      const Vector ak = broadcast(a[i * p.a_row]);
#pragma GCC unroll 2
      for (int n = 0; n < vectors; ++n) sums[i][n] += ak * bk[n];
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

template <Into into, int vectors, int rows = tile_rows>
inline void tile_of(std::int64_t row_count, const Product& p, std::int64_t first_row, const float* b, float* c,
                    std::int64_t c_row) {
  if (row_count == rows) {
    tile<into, rows, vectors>(p, first_row, b, c, c_row);
  } else if constexpr (rows > 1) {
    tile_of<into, vectors, rows - 1>(row_count, p, first_row, b, c, c_row);
  }
}

/// A tile whose last columns do not fill a vector: through a small copy.
template <Into into>
void ragged_tile(std::int64_t row_count, std::int64_t columns, const Product& p, std::int64_t first_row, const float* b,
                 float* c) {
  alignas(64) float copy[tile_rows * panel] = {};
  if (into == Into::accumulate) {
    for (std::int64_t i = 0; i < row_count; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) copy[i * panel + j] = c[i * p.c_row + j];
    }
  }
  tile_of<into, 2>(row_count, p, first_row, b, copy, panel);
  for (std::int64_t i = 0; i < row_count; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) c[i * p.c_row + j] = copy[i * panel + j];
  }
}

/// C = A·B, += A·B, or row_scale ∘ A·B. Columns that do not fill a vector need B in padded panels.
template <Into into>
void multiply(const Product& p) {
  const std::int64_t tiles = (p.rows + tile_rows - 1) / tile_rows;
  for (std::int64_t j = 0; j < p.columns; j += panel) {
    const float* b = p.b + j / panel * p.b_panel;
    const std::int64_t columns = p.columns - j < panel ? p.columns - j : panel;
    for (std::int64_t t = 0; t < tiles; ++t) {  // tiles of nearly equal height
      const std::int64_t first = t * p.rows / tiles, count = (t + 1) * p.rows / tiles - first;
      float* c = p.c + first * p.c_row + j;
      if (columns == panel) {
        tile_of<into, 2>(count, p, first, b, c, p.c_row);
      } else if (columns == lanes) {
        tile_of<into, 1>(count, p, first, b, c, p.c_row);
      } else {
        ragged_tile<into>(count, columns, p, first, b, c);
      }
    }
  }
}

}  // namespace
}  // namespace bert_hpc::ops::cpu
