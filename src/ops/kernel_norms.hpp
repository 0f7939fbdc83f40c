// Launches of layer norms (layer_norm_row.hpp) for CUDA devices. Rows of 768 and 1024 columns in 16-byte chunks, which
// BERT's models have, are taken by as many warps as the device holds at once, each of which requests its next row
// before it computes one. Other rows have a warp each. Only kernel files include this header.
#pragma once

#include "kernel_rows.hpp"
#include "norm_sums.hpp"

#if BERT_HPC_WARPS
namespace bert_hpc::ops::kernel {

/// Copies a vector to shared memory, in halves; zeros if it is null.
__device__ inline void copy_halves(const float* from, std::int64_t columns, float* to) {
  for (std::int64_t j = threadIdx.x; j < columns; j += blockDim.x) {
    to[packs::halved(j, columns)] = from == nullptr ? 0.0f : from[j];
  }
}

/// Number of blocks of a kernel that the device runs at once.
inline std::int64_t resident_blocks(const void* kernel, int threads, std::size_t shared) {
  int device = 0, processors = 0, blocks = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared);
  return std::int64_t{processors} * (blocks > 0 ? blocks : 1);
}

inline constexpr int norm_warps = 8;  // per block of the forward pass

template <class T, class Team>
__global__ void __launch_bounds__(norm_warps* packs::warp_lanes, Team::slots <= 3 ? 3 : 2)
    norm_forward_rows(const packs::NormForward<T> n, const packs::NormParameters p) {
  extern __shared__ packs::Chunk norm_memory[];
  constexpr int columns = Team::slots * packs::warp_lanes * packs::width;
  constexpr int chunks = packs::NextRow<Team, T, 2>::chunks;
  float* const vectors = reinterpret_cast<float*>(norm_memory + norm_warps * chunks);
  const int warp = static_cast<int>(threadIdx.x) / packs::warp_lanes;
  const packs::RowWalk walk{std::int64_t{warp} * gridDim.x + blockIdx.x, std::int64_t{gridDim.x} * norm_warps,
                            n.x.rows};
  packs::norm_rows(Team{static_cast<int>(threadIdx.x) % packs::warp_lanes}, walk, n,
                   {vectors, vectors + columns, vectors + 2 * columns, p.epsilon}, norm_memory + warp * chunks, [&] {
                     copy_halves(p.bias, columns, vectors);
                     copy_halves(p.gamma, columns, vectors + columns);
                     copy_halves(p.beta, columns, vectors + 2 * columns);
                     __syncthreads();
                   });
}

/// Launches the forward pass if rows are whole for `slots` packs per thread.
template <int slots, class T>
bool norm_forward_if_whole(const Label& label, const packs::NormForward<T>& n, const packs::NormParameters& p) {
  using Team = packs::Warp<slots, true>;
  if (!packs::are_whole<slots>(n.x.columns, n.x, n.residual, n.y)) return false;
  if (n.x.rows <= 0) return true;
  constexpr int threads = norm_warps * packs::warp_lanes;
  constexpr std::size_t shared =
      norm_warps * packs::NextRow<Team, T, 2>::chunks * sizeof(packs::Chunk) + 3 * Team::max_columns * sizeof(float);
  void (*const kernel)(packs::NormForward<T>, packs::NormParameters) = norm_forward_rows<T, Team>;
  static const std::int64_t most = resident_blocks(reinterpret_cast<const void*>(kernel), threads, shared);
  const std::int64_t wanted = divide_up(n.x.rows, norm_warps);
  const LaunchScope launched(label);
  kernel<<<static_cast<unsigned>(wanted < most ? wanted : most), threads, shared, stream()>>>(n, p);
  launched.check();
  return true;
}

template <class Team>
inline constexpr int norm_sum_threads = packs::norm_sum_warps(Team::slots) * packs::warp_lanes;

/// Chunks of shared memory: of the rows on their way, and then of one kind of sums of each warp.
template <class Team, class T>
inline constexpr int norm_sum_chunks = packs::norm_sum_warps(Team::slots) *
                                       (packs::NextRow<Team, T, 2>::chunks > 2 * Team::slots * packs::warp_lanes
                                            ? packs::NextRow<Team, T, 2>::chunks
                                            : 2 * Team::slots * packs::warp_lanes);

template <class T, class Team>
__global__ void __launch_bounds__(norm_sum_threads<Team>, 1)
    norm_backward_sums(const packs::NormBackward<T> n, const float* gamma, const core::Tensor<float> parts) {
  using namespace packs;
  extern __shared__ Chunk norm_memory[];
  constexpr int slots = Team::slots, warps = norm_sum_warps(slots), all = slots * warp_lanes * width;
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes, warp = static_cast<int>(threadIdx.x) / warp_lanes;
  float* const vector = reinterpret_cast<float*>(norm_memory + norm_sum_chunks<Team, T>);
  float sums[norm_sum_kinds][slots][width] = {};
  norm_rows_backward(Team{lane}, norm_sum_rows(blockIdx.x, gridDim.x, warp, warps, n.z.rows), n,
                     Team::whole ? vector : gamma, NormSums<slots>{sums},
                     norm_memory + warp * NextRow<Team, T, 2>::chunks, [&] {
                       if (Team::whole) {
                         copy_halves(gamma, all, vector);
                         __syncthreads();
                       }
                     });
  float* const totals = reinterpret_cast<float*>(norm_memory);  // (warps, all), rows in halves
  for (int kind = 0; kind < norm_sum_kinds; ++kind) {
    __syncthreads();
    for (int s = 0; s < slots; ++s) {
      for (int half = 0; half < 2; ++half) {
        Chunk part;
        std::memcpy(&part, sums[kind][s] + 4 * half, sizeof part);
        norm_memory[(warp * 2 + half) * slots * warp_lanes + s * warp_lanes + lane] = part;
      }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < all; i += warps * warp_lanes) {
      float total = 0.0f;
      for (int w = 0; w < warps; ++w) total += totals[w * all + i];
      const int column = i / 4 % (slots * warp_lanes) * width + i / 4 / (slots * warp_lanes) * 4 + i % 4;
      if (column < n.z.columns) parts(blockIdx.x, kind * n.z.columns + column) = total;
    }
  }
}

/// The backward pass with the sums of each block in a row of `parts`.
template <class Team, class T>
void norm_backward_sums_of(const Label& label, const packs::NormBackward<T>& n, const float* gamma,
                           core::Tensor<float> parts) {
  if (parts.rows <= 0 || n.z.columns <= 0) return;
  constexpr std::size_t shared =
      norm_sum_chunks<Team, T> * sizeof(packs::Chunk) + (Team::whole ? Team::max_columns * sizeof(float) : 0);
  void (*const kernel)(packs::NormBackward<T>, const float*, core::Tensor<float>) = norm_backward_sums<T, Team>;
  static const cudaError_t allowed = cudaFuncSetAttribute(
      reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  core::require(allowed == cudaSuccess, "layer norm: the device has too little shared memory");
  const LaunchScope launched(label);
  kernel<<<static_cast<unsigned>(parts.rows), norm_sum_threads<Team>, shared, stream()>>>(n, gamma, parts);
  launched.check();
}

}  // namespace bert_hpc::ops::kernel
#endif
