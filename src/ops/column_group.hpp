// Sums of rows in which the threads of a row (kernel_rows.hpp) share out a group of neighbouring columns.
#pragma once

#include <cstdint>

#include "kernel_rows.hpp"

namespace bert_hpc::ops::kernel {

/// Number of columns of a group, and number of these that one thread holds.
inline constexpr std::int64_t group_columns = 128;
inline constexpr std::int64_t thread_columns = group_columns / (in_warps ? packs::warp_lanes : 1);

/// A thread's sums.
struct ColumnGroup {
  float sums[thread_columns] = {};

  KOKKOS_INLINE_FUNCTION static std::int64_t own(std::int64_t column) {
    return in_warps ? column / packs::warp_lanes : column;
  }
  /// sums += factor · x of `count` columns.
  template <class T>
  KOKKOS_INLINE_FUNCTION void add(const RowTeam& team, std::int64_t count, float factor, const T* x) {
    float* const to = sums;
    team.each(count, [=](std::int64_t c) { to[own(c)] += factor * static_cast<float>(x[c]); });
  }
  KOKKOS_INLINE_FUNCTION void scale(float factor) {
    for (std::int64_t c = 0; c < thread_columns; ++c) sums[c] *= factor;
  }
  /// to = factor · sums.
  template <class T>
  KOKKOS_INLINE_FUNCTION void store(const RowTeam& team, std::int64_t count, float factor, T* to) const {
    const float* const from = sums;
    team.each(count, [=](std::int64_t c) { to[c] = factor * from[own(c)]; });
  }
  /// to += factor · sums.
  template <class T>
  KOKKOS_INLINE_FUNCTION void add_to(const RowTeam& team, std::int64_t count, float factor, T* to) const {
    const float* const from = sums;
    team.each(count, [=](std::int64_t c) { to[c] = static_cast<float>(to[c]) + factor * from[own(c)]; });
  }
};

/// Number of columns in the group that begins at `begin`.
KOKKOS_INLINE_FUNCTION std::int64_t group_width(std::int64_t columns, std::int64_t begin) {
  return columns - begin < group_columns ? columns - begin : group_columns;
}

}  // namespace bert_hpc::ops::kernel
