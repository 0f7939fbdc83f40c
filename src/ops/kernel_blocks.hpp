// Launches of cooperating blocks: one row per block (block_row.hpp), and 8-wide packs with the largest magnitude of
// what they read. For CUDA devices; only kernel files include this header.
#pragma once

#include "block_row.hpp"
#include "fp8_note.hpp"
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
    for (int distance = packs::warp_lanes / 2; distance > 0; distance /= 2) {
      const block_row::Softmax other = {__shfl_down_sync(0xFFFFFFFFu, sum.largest, distance),
                                        __shfl_down_sync(0xFFFFFFFFu, sum.total, distance)};
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

/// *largest = max(*largest, mine of all threads), if `largest` is not null. A block needs one atomic operation at most.
template <int threads>
__device__ void note_maximum(std::uint32_t mine, std::uint32_t* largest) {
  __shared__ std::uint32_t parts[threads / packs::warp_lanes];
  if (largest == nullptr) return;
  for (int distance = packs::warp_lanes / 2; distance > 0; distance /= 2) {
    const std::uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, mine, distance);
    mine = mine > other ? mine : other;
  }
  if (threadIdx.x % packs::warp_lanes == 0) parts[threadIdx.x / packs::warp_lanes] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const std::uint32_t part : parts) mine = mine > part ? mine : part;
  if (mine > *static_cast<const volatile std::uint32_t*>(largest)) atomicMax(largest, mine);
}

inline constexpr int noting_threads = 256, noting_packs = 4;  // of a block; of a thread, all under way at once

template <class From, class Body>
__global__ void __launch_bounds__(noting_threads)
    noted_packs(const From from, std::int64_t rows, std::int64_t columns, std::uint32_t* largest, const Body body) {
  wait_for_earlier_kernels();
  const auto packs_of_row = static_cast<std::uint32_t>(packs::count_of(columns));
  const std::uint32_t first = blockIdx.x * (noting_threads * noting_packs) + threadIdx.x;
  std::uint32_t row[noting_packs], pack[noting_packs];
  typename From::Fetched fetched[noting_packs];
  for (int i = 0; i < noting_packs; ++i) {
    const std::uint32_t at = first + static_cast<std::uint32_t>(i * noting_threads);
    row[i] = at / packs_of_row;
    pack[i] = at % packs_of_row;
    if (row[i] < rows) {
      fetched[i] = from.fetch(row[i], std::int64_t{pack[i]} * packs::width, packs::columns_of(pack[i], columns));
    }
  }
  std::uint32_t mine = 0;
  for (int i = 0; i < noting_packs; ++i) {
    if (row[i] >= rows) break;
    float value[packs::width];
    From::values(fetched[i], value);  // zeros after the last column
    const std::uint32_t found = largest_magnitude(value);
    mine = mine > found ? mine : found;
    body(row[i], std::int64_t{pack[i]} * packs::width, packs::columns_of(pack[i], columns), value);
  }
  note_maximum<noting_threads>(mine, largest);
}

/// body(row, first column, columns, values) for every 8-wide pack of every row of a source (AsStored). If
/// `largest` is not null, it becomes the largest magnitude (fp8_note.hpp) of the values and itself.
template <class From, class Body>
void for_noted_packs(const Label& label, const From& from, std::int64_t rows, std::int64_t columns,
                     std::uint32_t* largest, const Body& body) {
  if (rows * columns == 0) return;
  const std::int64_t count = rows * packs::count_of(columns);
  core::require(count < std::int64_t{1} << 31, "a matrix of more than 2^31 packs");  // counted in 32 bits: divisions
  const std::int64_t blocks = divide_up(count, noting_threads * noting_packs);
  launch(label, noted_packs<From, Body>, {.blocks = static_cast<unsigned>(blocks), .threads = noting_threads}, from,
         rows, columns, largest, body);
}

}  // namespace bert_hpc::ops::kernel
#endif
