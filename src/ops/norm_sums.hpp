// The backward pass of a layer norm with sums over rows, so that the gradients of γ, β and the bias before it need no
// second read. A warp keeps its sums in registers over all its rows; those of a block become a row of a small matrix
// (partial sums), which the next launch with sums over rows adds up (ops/column_sums.hpp). The number of blocks depends
// only on the rows, and the order of additions is fixed: bits depend neither on the device nor on scheduling.
#pragma once

#include <cstdint>
#include <vector>

#include "layer_norm_row.hpp"

namespace bert_hpc::ops::packs {

inline constexpr int norm_sum_kinds = 3;  // γ, β, bias

/// Warps of a block, with `slots` packs of a row per thread: a row and its sums take most of a multiprocessor's
/// registers, which one block fills.
constexpr int norm_sum_warps(int slots) {
  return slots <= 3 ? 12 : 8;
}

/// Number of blocks: at most as many as an H100 has multiprocessors, and each warp has a row.
constexpr std::int64_t norm_sum_blocks(std::int64_t rows, std::int64_t columns) {
  const int warps = norm_sum_warps(columns <= 3 * warp_lanes * width ? 3 : 4);
  const std::int64_t most = 132, wanted = (rows + warps - 1) / warps;
  return wanted < most ? wanted : most;
}

/// The rows of a block's warp: a round of all blocks takes neighbouring rows.
constexpr RowWalk norm_sum_rows(std::int64_t block, std::int64_t blocks, int warp, int warps, std::int64_t rows) {
  return {warp * blocks + block, warps * blocks, rows};
}

/// Serial emulation of block `block` of `blocks` on the host: part[kind · columns + column].
template <class Team, class T>
void serial_norm_block(std::int64_t block, std::int64_t blocks, const NormBackward<T>& n, const float* gamma,
                       float* part) {
  const std::int64_t columns = n.z.columns;
  constexpr int warps = norm_sum_warps(Team::slots);
  std::vector<Chunk> memory(static_cast<std::size_t>(NextRow<Team, T, 2>::chunks));
  alignas(Chunk) float halves[Team::slots * warp_lanes * width];
  if (Team::whole) {
    for (std::int64_t j = 0; j < columns; ++j) halves[halved(j, columns)] = gamma[j];
  }
  for (std::int64_t i = 0; i < norm_sum_kinds * columns; ++i) part[i] = 0.0f;
  for (int warp = 0; warp < warps; ++warp) {
    float sums[norm_sum_kinds][Team::held][width] = {};
    norm_rows_backward(Team{}, norm_sum_rows(block, blocks, warp, warps, n.z.rows), n, Team::whole ? halves : gamma,
                       NormSums<Team::held>{sums}, memory.data(), [] {});
    for (int kind = 0; kind < norm_sum_kinds; ++kind) {
      for (std::int64_t j = 0; j < columns; ++j) part[kind * columns + j] += sums[kind][j / width][j % width];
    }
  }
}

/// Whether rows of these matrices are whole for `slots` packs per thread.
template <int slots, class... T>
bool are_whole(std::int64_t columns, const core::Tensor<T>&... matrices) {
  return columns == std::int64_t{slots} * warp_lanes * width && (in_chunks(matrices) && ...);
}

}  // namespace bert_hpc::ops::packs
