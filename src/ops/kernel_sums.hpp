// Launches of kernels that sum over rows while they compute (partial_sums.hpp). Only kernel files include this header.
#pragma once

#include "kernel_rows.hpp"
#include "partial_sums.hpp"

namespace bert_hpc::ops::kernel {

#if BERT_HPC_WARPS
template <class Body>
__global__ void __launch_bounds__(packs::sum_warps* packs::warp_lanes)
    partial_sums(std::int64_t rows, std::int64_t columns, const core::Tensor<float> parts, const Body body) {
  using namespace packs;
  constexpr int slots = Body::slots, kinds = Body::kinds, group = slots * warp_lanes * width;
  __shared__ float totals[kinds][slots * width][warp_lanes + 1];  // padding against bank conflicts
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes, warp = static_cast<int>(threadIdx.x) / warp_lanes;
  const std::int64_t first = std::int64_t{blockIdx.y} * slots * warp_lanes;
  float sums[kinds][slots][width] = {};
  for (std::int64_t row = std::int64_t{blockIdx.x} * sum_warps + warp; row < rows;
       row += std::int64_t{gridDim.x} * sum_warps) {
    body(Warp<slots>{lane}, first, row, sums);
  }
  for (int turn = 0; turn < sum_warps; ++turn) {
    for (int i = 0; turn == warp && i < slots * width; ++i) {
      for (int kind = 0; kind < kinds; ++kind) {
        float& total = totals[kind][i][lane];
        total = (turn == 0 ? 0.0f : total) + sums[kind][i / width][i % width];
      }
    }
    __syncthreads();
  }
  for (int i = static_cast<int>(threadIdx.x); i < group; i += sum_warps * warp_lanes) {
    const int slot = i / width / warp_lanes, from = i / width % warp_lanes;
    const std::int64_t column = first * width + i;
    for (int kind = 0; kind < kinds && column < columns; ++kind) {
      parts(blockIdx.x, kind * columns + column) = totals[kind][slot * width + i % width][from];
    }
  }
}
#endif

/// Runs `body` over all rows, with one block for each row of `parts` (blocks, kinds · columns), which receives its
/// sums.
template <class Body>
void for_partial_sums(const Label& label, std::int64_t rows, std::int64_t columns, core::Tensor<float> parts,
                      const Body& body) {
#if BERT_HPC_WARPS
  if (parts.rows <= 0 || columns <= 0) return;
  constexpr int group = Body::slots * packs::warp_lanes * packs::width;
  const LaunchScope launched(label);
  partial_sums<<<dim3(static_cast<unsigned>(parts.rows), static_cast<unsigned>(divide_up(columns, group))),
                 packs::sum_warps * packs::warp_lanes, 0, stream()>>>(rows, columns, parts, body);
  launched.check();
#else
  for_items(
      label, parts.rows, KOKKOS_LAMBDA(std::int64_t block) {
        packs::serial_block(block, parts.rows, rows, columns, body, parts.row(block));
      });
#endif
}

}  // namespace bert_hpc::ops::kernel
