// The backward pass of a layer norm with sums over rows, so that the gradients of γ, β and the bias before it need no
// second read. A team keeps its sums in registers over all its rows; those of a block become a row of a small matrix
// (partial sums), which the next launch with sums over rows adds up (ops/column_sums.hpp). The number of blocks depends
// only on the rows, and the order of additions is fixed: bits depend neither on the device nor on scheduling.
#pragma once

#include <cstdint>

#include "layer_norm_row.hpp"

namespace bert_hpc::ops::packs {

inline constexpr int norm_sum_kinds = 3;  // γ, β, bias

/// Teams of a block, which fills a multiprocessor: a thread takes about 90 registers, and 230 if it has several packs.
template <class Team>
inline constexpr int norm_sum_teams = Team::whole ? (Team::lanes <= 96 ? 6 : 5) : 8;

/// Number of blocks: at most as many as an H100 has multiprocessors, and each team has a row.
constexpr std::int64_t norm_sum_blocks(std::int64_t rows) {
  const std::int64_t most = 132, wanted = (rows + 4) / 5;
  return wanted < most ? wanted : most;
}

/// The rows of a block's team: a round of all blocks takes neighbouring rows.
constexpr RowWalk norm_sum_rows(std::int64_t block, std::int64_t blocks, int team, int teams, std::int64_t rows) {
  return {team * blocks + block, teams * blocks, rows};
}

/// Serial emulation of block `block` of `blocks` on the host: part[kind · columns + column].
template <class Team, class T>
void serial_norm_block(std::int64_t block, std::int64_t blocks, const NormBackward<T>& n, const float* gamma,
                       float* part) {
  const std::int64_t columns = n.z.columns;
  constexpr int teams = norm_sum_teams<Team>;
  for (std::int64_t i = 0; i < norm_sum_kinds * columns; ++i) part[i] = 0.0f;
  for (int team = 0; team < teams; ++team) {
    float sums[norm_sum_kinds][Team::held][width] = {};
    norm_rows_backward(Team{}, norm_sum_rows(block, blocks, team, teams, n.z.rows), n, gamma,
                       NormSums<Team::held>{sums});
    for (int kind = 0; kind < norm_sum_kinds; ++kind) {
      for (std::int64_t j = 0; j < columns; ++j) part[kind * columns + j] += sums[kind][j / width][j % width];
    }
  }
}

/// Whether rows of these matrices are whole for groups of `warps` warps.
template <int warps, class... T>
bool are_whole(std::int64_t columns, const core::Tensor<T>&... matrices) {
  return columns == WarpGroup<warps>::columns && (in_chunks(matrices) && ...);
}

}  // namespace bert_hpc::ops::packs
