// Kernels that also sum their results over rows, so that gradients of biases, γ and β need no second read. A block of
// four warps takes rows at a fixed interval and writes its sums as one row of a small matrix, which another kernel
// reduces (add_partial_sums()). The number of blocks depends only on the rows, and the order of additions is fixed:
// bits depend neither on the device nor on scheduling.
#pragma once

#include <cstdint>

#include "bert_hpc/ops/vector_math.hpp"
#include "layer_norm_row.hpp"

namespace bert_hpc::ops::packs {

inline constexpr int sum_warps = 4;  // per block

/// Number of blocks if each row takes a whole warp. The row and its three kinds of sums take most of a thread's
/// registers, so three blocks fit on a multiprocessor for rows of 768 columns (two for longer rows). The limits are the
/// blocks that an H100 runs at once; each warp has at least one row.
constexpr std::int64_t norm_sum_blocks(std::int64_t rows, std::int64_t columns) {
  const std::int64_t most = columns <= 768 ? 396 : 264, wanted = (rows + sum_warps - 1) / sum_warps;
  return wanted < most ? wanted : most;
}

/// Number of blocks if a warp takes 256 columns of a row and at least four rows; for 3072 columns eight blocks per
/// multiprocessor.
constexpr std::int64_t column_sum_blocks(std::int64_t rows) {
  constexpr std::int64_t most = 88, rows_of_block = 4 * sum_warps;
  const std::int64_t wanted = (rows + rows_of_block - 1) / rows_of_block;
  return wanted < most ? wanted : most;
}

// A body has `kinds` sums per column and `slots` 8-wide packs per thread. body(team, first pack, row, sums) processes
// 256·slots columns of a row, from that pack on, and adds to sums[kind][slot].

/// d_pre = d_y ∘ gelu'(pre), and its column sums.
template <class T>
struct GeluBackwardTerm {
  static constexpr int kinds = 1, slots = 1;
  Tensor<const T> pre, d_y;
  Tensor<T> d_pre;

  template <class Team>
  BERT_HPC_DEVICE void operator()(const Team& team, std::int64_t first, std::int64_t row,
                                  float (&sums)[kinds][Team::held][width]) const {
    const std::int64_t left = count_of(pre.columns) - first;
    team.each(left < warp_lanes ? left : warp_lanes, [&](int s, std::int64_t o) {
      const std::int64_t column = (first + o) * width;
      const int count = columns_of(first + o, pre.columns);
      float x[width], d[width];
      load(pre.row(row) + column, count, x);
      load(d_y.row(row) + column, count, d);
      for (int j = 0; j < width; ++j) d[j] *= gelu_derivative_of<T>(x[j]);
      store(d, count, d_pre.row(row) + column);
      for (int j = 0; j < width; ++j) sums[0][s][j] += d[j];
    });
  }
};

/// norm_row_backward() with the sums for the gradients of γ, β and the bias before the norm.
template <int slots_, class T>
struct NormBackwardTerm {
  static constexpr int kinds = 3, slots = slots_;
  RowSite site;
  Tensor<const T> d_y, z;
  const float *gamma, *mean, *rstd;
  Tensor<T> d_z, d_x;

  template <class Team>
  BERT_HPC_DEVICE void operator()(const Team& team, std::int64_t, std::int64_t row,
                                  float (&sums)[kinds][Team::held][width]) const {
    norm_row_backward(team, site, row, z.columns, d_y.row(row), z.row(row), gamma, mean[row], rstd[row], d_z.row(row),
                      d_x.row(row), NormSums<Team::held>{sums});
  }
};

/// Serial emulation of block `block` of `blocks` on the host: part[kind · columns + column].
template <class Body>
void serial_block(std::int64_t block, std::int64_t blocks, std::int64_t rows, std::int64_t columns, const Body& body,
                  float* part) {
  using Team = WarpInTurn<Body::slots>;
  constexpr int size = Body::kinds * Team::held * width;
  for (std::int64_t first = 0; first < count_of(columns); first += Team::held) {
    float total[Body::kinds][Team::held][width] = {};
    for (int warp = 0; warp < sum_warps; ++warp) {
      float sums[Body::kinds][Team::held][width] = {};
      for (std::int64_t row = block * sum_warps + warp; row < rows; row += blocks * sum_warps) {
        body(Team{}, first, row, sums);
      }
      for (int i = 0; i < size; ++i) (&total[0][0][0])[i] += (&sums[0][0][0])[i];
    }
    for (int kind = 0; kind < Body::kinds; ++kind) {
      for (std::int64_t i = 0; i < Team::held * width && first * width + i < columns; ++i) {
        part[kind * columns + first * width + i] = total[kind][i / width][i % width];
      }
    }
  }
}

}  // namespace bert_hpc::ops::packs
