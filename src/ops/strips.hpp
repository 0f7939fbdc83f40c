// Sums over the rows of a matrix by the threads of a GPU, of what a term makes of each row's packs (packs.hpp):
// gradients of biases, of γ and of β. The columns are divided into strips, and the rows of a strip among its threads.
// The order of additions depends on the rows alone. serial_strip() emulates a strip on the host, with the same bits.
#pragma once

#include <cstdint>
#include <cstring>

#include "bert_hpc/ops/vector_math.hpp"
#include "packs.hpp"

namespace bert_hpc::ops::packs {

// A strip is `strip_packs` neighbouring packs: a whole line of 128 bytes in the 16-bit types. Each of its threads takes
// every strip_rows-th row of one pack; the threads of 4 rows form a warp, those of 32 rows a part. On a GPU each part
// is a block, so that a matrix of few columns still has many blocks, and the parts of a strip are added in a cluster.
inline constexpr int strip_packs = 8, strip_rows = 256, strip_parts = 8;
inline constexpr int rows_of_warp = warp_lanes / strip_packs, rows_of_part = strip_rows / strip_parts;
inline constexpr int part_warps = rows_of_part / rows_of_warp, part_threads = part_warps * warp_lanes;
inline constexpr int columns_of_strip = strip_packs * width;

constexpr std::int64_t strips_of(std::int64_t columns) {
  return (columns + columns_of_strip - 1) / columns_of_strip;
}

/// A term that adds the contribution of a row's pack in two steps, so that the loads of several rows are under way at
/// once: term.fetch<whole>(row, column, count), and term.add<whole>(fetched, row, column, count, sums) for sum k of
/// column j at sums[k·8 + j]. `whole` packs are in chunks, which in_chunks() states of all whole packs of the matrices.
/// Any other term does all at once: term(row, column, count, sums).
template <class Term>
concept InTwoSteps = requires {
  typename Term::Fetched;
};

template <bool whole, class Term, int size>
BERT_HPC_DEVICE void add_rows_of_strip(int first_row, std::int64_t rows, std::int64_t column, int count,
                                       const Term& term, float (&sums)[size]) {
  constexpr int ahead = Term::rows_ahead;
  typename Term::Fetched fetched[ahead] = {};
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
  for (std::int64_t row = first_row; row < rows; row += ahead * strip_rows) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int r = 0; r < ahead; ++r) {
      if (row + r * strip_rows < rows) fetched[r] = term.template fetch<whole>(row + r * strip_rows, column, count);
    }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int r = 0; r < ahead; ++r) {
      if (row + r * strip_rows < rows) {
        term.template add<whole>(fetched[r], row + r * strip_rows, column, count, sums);
      }
    }
  }
}

/// sums[k·8 + j] of one thread.
template <class Term, int size>
BERT_HPC_DEVICE void strip_part(int first_row, std::int64_t rows, std::int64_t pack, std::int64_t columns,
                                const Term& term, float (&sums)[size]) {
  for (int i = 0; i < size; ++i) sums[i] = 0.0f;
  const int count = columns_of(pack, columns);
  if (count <= 0) return;
  if constexpr (InTwoSteps<Term>) {
    if (count == width && term.in_chunks()) {
      add_rows_of_strip<true>(first_row, rows, pack * width, count, term, sums);
    } else {
      add_rows_of_strip<false>(first_row, rows, pack * width, count, term, sums);
    }
  } else {
#if defined(__CUDA_ARCH__)
#pragma unroll 4
#endif
    for (std::int64_t row = first_row; row < rows; row += strip_rows) term(row, pack * width, count, sums);
  }
}

/// Serial emulation of strip `strip` of a GPU: finish(column, kind, total) for each of `kinds` sums of its columns.
template <int kinds, class Term, class Finish>
void serial_strip(std::int64_t strip, std::int64_t rows, std::int64_t columns, const Term& term, const Finish& finish) {
  constexpr int size = kinds * width;
  for (std::int64_t pack = strip * strip_packs; pack < (strip + 1) * strip_packs && pack * width < columns; ++pack) {
    float totals[size] = {};
    for (int part = 0; part < strip_parts; ++part) {
      float total[size] = {};
      for (int warp = 0; warp < part_warps; ++warp) {
        float sums[rows_of_warp][size], next[rows_of_warp][size];
        for (int r = 0; r < rows_of_warp; ++r) {
          strip_part(part * rows_of_part + warp * rows_of_warp + r, rows, pack, columns, term, sums[r]);
        }
        for (int distance = rows_of_warp / 2; distance > 0; distance /= 2) {
          for (int r = 0; r < rows_of_warp; ++r) {
            for (int i = 0; i < size; ++i) next[r][i] = sums[r][i] + sums[r ^ distance][i];
          }
          std::memcpy(sums, next, sizeof sums);
        }
        for (int i = 0; i < size; ++i) total[i] += sums[0][i];
      }
      for (int i = 0; i < size; ++i) totals[i] += total[i];
    }
    for (int i = 0; i < size; ++i) {
      if (i % width < columns_of(pack, columns)) finish(pack * width + i % width, i / width, totals[i]);
    }
  }
}

/// Column sums.
template <class T>
struct ColumnTerm {
  static constexpr int rows_ahead = 4;
  using Fetched = Stored<T>;
  core::Tensor<const T> x;

  BERT_HPC_DEVICE bool in_chunks() const { return packs::in_chunks(x); }
  template <bool whole>
  BERT_HPC_DEVICE Fetched fetch(std::int64_t row, std::int64_t column, int count) const {
    return packs::fetch<whole>(x.row(row) + column, count);
  }
  template <bool whole, int size>
  BERT_HPC_DEVICE void add(const Fetched& fetched, std::int64_t, std::int64_t, int, float (&sums)[size]) const {
    float part[width];
    widen(fetched, part);
    for (int j = 0; j < width; ++j) sums[j] += part[j];
  }
  BERT_HPC_DEVICE void operator()(std::int64_t row, std::int64_t column, int count, float* sums) const {
    float part[width];
    load(x.row(row) + column, count, part);
    for (int j = 0; j < width; ++j) sums[j] += part[j];
  }
};

/// Gradients of a layer norm's γ (sums 0 … 7) and β (8 … 15).
template <class T>
struct NormWeightTerm {
  static constexpr int rows_ahead = sizeof(T) == 2 ? 4 : 2;
  struct Fetched {
    Stored<T> d_y, z;
    float mean, rstd;
  };
  core::Tensor<const T> d_y, z;
  const float *mean, *rstd;  // mean: null for an RMS norm

  BERT_HPC_DEVICE bool in_chunks() const { return packs::in_chunks(d_y) && packs::in_chunks(z); }
  template <bool whole>
  BERT_HPC_DEVICE Fetched fetch(std::int64_t row, std::int64_t column, int count) const {
    return {packs::fetch<whole>(d_y.row(row) + column, count), packs::fetch<whole>(z.row(row) + column, count),
            mean == nullptr ? 0.0f : mean[row], rstd[row]};
  }
  template <bool whole, int size>
  BERT_HPC_DEVICE void add(const Fetched& fetched, std::int64_t, std::int64_t, int, float (&sums)[size]) const {
    float g[width], x[width];
    widen(fetched.d_y, g);
    widen(fetched.z, x);
    for (int j = 0; j < width; ++j) {
      sums[j] += g[j] * ((x[j] - fetched.mean) * fetched.rstd);
      sums[width + j] += g[j];
    }
  }
};

/// d_pre = d_y ∘ gelu'(pre), and the column sums of the stored d_pre, which may be d_y.
template <class T>
struct GeluBackwardTerm {
  static constexpr int rows_ahead = sizeof(T) == 2 ? 2 : 1;
  struct Fetched {
    Stored<T> pre, d_y;
  };
  core::Tensor<const T> pre, d_y;
  core::Tensor<T> d_pre;

  BERT_HPC_DEVICE bool in_chunks() const {
    return packs::in_chunks(pre) && packs::in_chunks(d_y) && packs::in_chunks(d_pre);
  }
  template <bool whole>
  BERT_HPC_DEVICE Fetched fetch(std::int64_t row, std::int64_t column, int count) const {
    return {packs::fetch<whole>(pre.row(row) + column, count), packs::fetch<whole>(d_y.row(row) + column, count)};
  }
  template <bool whole, int size>
  BERT_HPC_DEVICE void add(const Fetched& fetched, std::int64_t row, std::int64_t column, int count,
                           float (&sums)[size]) const {
    float x[width], d[width];
    widen(fetched.pre, x);
    widen(fetched.d_y, d);
    for (int j = 0; j < width; ++j) d[j] *= gelu_derivative_of<T>(x[j]);
    store<whole>(d, count, d_pre.row(row) + column);
    for (int j = 0; j < width; ++j) sums[j] += d[j];
  }
};

}  // namespace bert_hpc::ops::packs
