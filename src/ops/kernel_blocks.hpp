// Launches of cooperating blocks: one row per block (block_row.hpp), and 8-wide packs with the maximum of their
// results. For CUDA devices; only kernel files include this header.
#pragma once

#include "block_row.hpp"
#include "kernel_rows.hpp"

#if BERT_HPC_WARPS
namespace bert_hpc::ops::kernel {

/// One thread of a block that shares a row.
struct BlockTeam {
  block_row::Softmax* warp_sums;  // of each warp, in shared memory

  BERT_HPC_DEVICE bool leads() const {
#if defined(__CUDA_ARCH__)
    return threadIdx.x == 0;
#else
    return true;
#endif
  }

  template <class Body>
  BERT_HPC_DEVICE void each([[maybe_unused]] std::int64_t pack_count, [[maybe_unused]] const Body& body) const {
#if defined(__CUDA_ARCH__)
    for (std::int64_t o = threadIdx.x; o < pack_count; o += block_row::threads) body(o);
#endif
  }

  template <class Part>
  BERT_HPC_DEVICE block_row::Softmax softmax([[maybe_unused]] std::int64_t pack_count, const block_row::Softmax& first,
                                             [[maybe_unused]] const Part& part) const {
    block_row::Softmax sum = first;
#if defined(__CUDA_ARCH__)
    each(pack_count, [&](std::int64_t pack) { part(sum, pack); });
    for (int apart = packs::warp_lanes / 2; apart > 0; apart /= 2) {
      const block_row::Softmax other = {__shfl_down_sync(0xFFFFFFFFu, sum.largest, apart),
                                        __shfl_down_sync(0xFFFFFFFFu, sum.total, apart)};
      sum = block_row::merged(sum, other);
    }
    if (threadIdx.x % packs::warp_lanes == 0) warp_sums[threadIdx.x / packs::warp_lanes] = sum;
    __syncthreads();
    sum = warp_sums[0];
    for (int w = 1; w < block_row::warps; ++w) sum = block_row::merged(sum, warp_sums[w]);
#endif
    return sum;
  }
};

template <class Body>
__global__ void __launch_bounds__(block_row::threads) block_rows(const Body body) {
  wait_for_earlier_kernels();
  __shared__ block_row::Softmax sums[block_row::warps];
  body(BlockTeam{sums}, std::int64_t{blockIdx.x});
}

/// body(team, row) for rows in [0, count); a body may reduce only once.
template <class Body>
void for_blocks(const Label& label, std::int64_t count, const Body& body) {
  if (count <= 0) return;
  launch(label, block_rows<Body>, {.blocks = static_cast<unsigned>(count), .threads = block_row::threads}, body);
}

inline constexpr int walk_threads = 256;
/// Number of blocks that an H100's 132 multiprocessors hold at once; each block loops over its share.
inline constexpr std::int64_t max_walk_blocks = 132 * 8;

/// *largest = max(*largest, mine of all threads) with one atomic operation of the block, if `largest` is not null.
template <int threads>
__device__ void note_maximum(std::uint32_t mine, std::uint32_t* largest) {
  __shared__ std::uint32_t parts[threads / packs::warp_lanes];
  if (largest == nullptr) return;
  for (int apart = packs::warp_lanes / 2; apart > 0; apart /= 2) {
    const std::uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, mine, apart);
    mine = mine > other ? mine : other;
  }
  if (threadIdx.x % packs::warp_lanes == 0) parts[threadIdx.x / packs::warp_lanes] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const std::uint32_t part : parts) mine = mine > part ? mine : part;
  atomicMax(largest, mine);
}

template <class Body>
__global__ void __launch_bounds__(walk_threads)
    packs_with_maximum(std::int64_t rows, std::int64_t columns, std::uint32_t* largest, const Body body) {
  wait_for_earlier_kernels();
  std::uint32_t mine = 0;
  packs::PackWalk at(std::int64_t{blockIdx.x} * walk_threads + threadIdx.x, std::int64_t{gridDim.x} * walk_threads,
                     packs::count_of(columns));
  for (; at.row < rows; at.advance()) {
    const std::uint32_t found = body(at.row, at.pack * packs::width, packs::columns_of(at.pack, columns));
    mine = mine > found ? mine : found;
  }
  note_maximum<walk_threads>(mine, largest);
}

/// body(row, first column, columns) for every 8-wide pack of every row. If `largest` is not null, *largest =
/// max(*largest, results), with one atomic operation per block.
template <class Body>
void for_packs_with_maximum(const Label& label, std::int64_t rows, std::int64_t columns, std::uint32_t* largest,
                            const Body& body) {
  if (rows <= 0 || columns <= 0) return;
  const std::int64_t blocks = divide_up(rows * packs::count_of(columns), walk_threads);
  launch(
      label, packs_with_maximum<Body>,
      {.blocks = static_cast<unsigned>(blocks < max_walk_blocks ? blocks : max_walk_blocks), .threads = walk_threads},
      rows, columns, largest, body);
}

}  // namespace bert_hpc::ops::kernel
#endif
