// Rows of queries whose candidates have one loss. Only kernel files include this header.
#pragma once

#include <cstdint>

#include "kernel_rows.hpp"

namespace bert_hpc::ops::kernel {

/// row_loss (d.rows) becomes 0, and so do the rows of d (rows, 1) of no query. lists (count, 2): the rows of each
/// query, ascending. d may have no data.
inline void clear_lists(const char* label, const std::int32_t* lists, std::int64_t count, core::Tensor<float> d,
                        float* row_loss) {
  for_rows(
      label, count + 1, KOKKOS_LAMBDA(const RowTeam& team, std::int64_t q) {
        const std::int64_t before = q == 0 ? 0 : lists[2 * q - 1];
        const std::int64_t begin = q == count ? d.rows : lists[2 * q], end = q == count ? d.rows : lists[2 * q + 1];
        team.each(end - before, [=](std::int64_t j) { row_loss[before + j] = 0.0f; });
        if (d.data == nullptr) return;
        team.each(begin - before, [=](std::int64_t j) { d.row(before + j)[0] = 0.0f; });
      });
}

}  // namespace bert_hpc::ops::kernel
