// Blocking of a gemm: steps whose packed operands fit into the last cache, blocks of terms, and a rectangle of C for
// each thread. Pure functions of extents that do not change any bit of a result. Lengths along k count words
// (tile_kernels.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "tile_kernels.hpp"

namespace bert_hpc::ops::cpu {

inline constexpr std::int64_t longest_step = 4096;  // words packed at once
/// 10 MiB: a whole weight matrix of a base-size model.
inline constexpr std::int64_t step_floats = std::int64_t{5} << 19;

/// Multiply-adds of a product that justify waking threads.
inline constexpr std::int64_t min_shared_work = std::int64_t{1} << 18;

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
inline std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return divide_up(a, b) * b;
}

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

/// Part `index` of `parts` nearly equal parts of [0, count) in multiples of `unit`.
inline Range part_of(std::int64_t count, std::int64_t unit, std::int64_t index, std::int64_t parts) {
  const std::int64_t units = divide_up(count, unit);
  return {std::min(count, units * index / parts * unit), std::min(count, units * (index + 1) / parts * unit)};
}

/// Extents of one block and one step.
struct Blocking {
  std::int64_t k_block, m_step, n_step, k_step;
};

/// Number of words whose panel of B is packed at once. All of them if C is stored in 16 bits, as C would otherwise be
/// rounded between steps.
inline std::int64_t longest_step_of(const TileKernels& kernels, bool rounds) {
  return rounds ? step_floats / kernels.columns : longest_step;
}

inline Blocking blocking_of(const TileKernels& kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                            bool a_transposed, bool rounds) {
  const std::int64_t longest = longest_step_of(kernels, rounds);
  Blocking b;
  const std::int64_t longest_k = a_transposed ? longest_block : kernels.longest_in_place;
  b.k_block = std::min(k, round_up(divide_up(k, divide_up(k, longest_k)), 16));
  // An A that is read in place needs no steps over m; k is split only if a panel of B would be too tall.
  b.k_step = a_transposed ? b.k_block : k <= longest ? k : longest / b.k_block * b.k_block;
  // Steps of similar size whose packed panels, of `unit` rows or columns each, fit.
  const auto reach = [](std::int64_t extent, std::int64_t unit, std::int64_t panel_floats) {
    const std::int64_t most = step_floats / panel_floats * unit;
    return extent <= most ? extent : round_up(divide_up(extent, divide_up(extent, most)), unit);
  };
  b.n_step = reach(n, kernels.columns, kernels.columns * std::min(k, b.k_step));
  b.m_step = a_transposed ? reach(m, kernels.rows, kernels.row_panel_words(b.k_block)) : m;
  return b;
}

/// Arrangement of the threads as a grid over C that minimises the largest share of tiles.
struct Grid {
  std::int64_t rows, columns;
};

inline Grid grid_of(std::int64_t threads, std::int64_t row_tiles, std::int64_t column_tiles) {
  Grid best{threads, 1};
  std::int64_t smallest = divide_up(row_tiles, threads) * column_tiles;
  for (std::int64_t rows = threads - 1; rows >= 1; --rows) {
    const std::int64_t columns = threads / rows;
    const std::int64_t share = divide_up(row_tiles, rows) * divide_up(column_tiles, columns);
    if (share < smallest) {
      smallest = share;
      best = {rows, columns};
    }
  }
  return best;
}

}  // namespace bert_hpc::ops::cpu
