// Launches of layer norms (layer_norm_row.hpp) for CUDA devices. Rows of 768 and 1024 columns in 16-byte chunks, which
// BERT's models have, are taken by groups of warps, as many as the device holds at once, each of which requests its
// next row before it computes one. Other rows have a warp each. Only kernel files include this header.
#pragma once

#include "kernel_rows.hpp"
#include "norm_sums.hpp"

#if BERT_HPC_WARPS
namespace bert_hpc::ops::kernel {

/// Number of blocks of a kernel that the device runs at once.
inline std::int64_t resident_blocks(const void* kernel, int threads) {
  int device = 0, processors = 0, blocks = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0);
  return std::int64_t{processors} * (blocks > 0 ? blocks : 1);
}

inline constexpr int norm_warps = 12;  // of a block of the forward pass, two of which fit into a multiprocessor

template <class T, class Group>
__global__ void __launch_bounds__(norm_warps* packs::warp_lanes, 2)
    norm_forward_rows(const packs::NormForward<T> n, const packs::NormParameters p) {
  wait_for_earlier_kernels();
  constexpr int groups = norm_warps / Group::warps;
  __shared__ float exchange[groups * Group::exchanged];
  const int group = static_cast<int>(threadIdx.x) / Group::lanes;
  const packs::RowWalk walk{std::int64_t{group} * gridDim.x + blockIdx.x, std::int64_t{gridDim.x} * groups, n.x.rows};
  packs::norm_rows(Group::of_thread(static_cast<int>(threadIdx.x), exchange), walk, n, p);
}

/// Launches the forward pass if rows are whole for groups of `warps` warps.
template <int warps, class T>
bool norm_forward_if_whole(const Label& label, const packs::NormForward<T>& n, const packs::NormParameters& p) {
  using Group = packs::WarpGroup<warps>;
  static_assert(norm_warps % warps == 0);
  if (!packs::are_whole<warps>(n.x.columns, n.x, n.residual, n.y)) return false;
  if (n.x.rows <= 0) return true;
  constexpr int threads = norm_warps * packs::warp_lanes;
  void (*const kernel)(packs::NormForward<T>, packs::NormParameters) = norm_forward_rows<T, Group>;
  static const std::int64_t most = resident_blocks(reinterpret_cast<const void*>(kernel), threads);
  const std::int64_t wanted = divide_up(n.x.rows, norm_warps / warps);
  launch(label, kernel, {.blocks = static_cast<unsigned>(wanted < most ? wanted : most), .threads = threads}, n, p);
  return true;
}

template <class Team>
inline constexpr int norm_sum_threads = packs::norm_sum_teams<Team>* Team::lanes;

template <class T, class Team>
__global__ void __launch_bounds__(norm_sum_threads<Team>, 1)
    norm_backward_sums(const packs::NormBackward<T> n, const float* gamma, const core::Tensor<float> parts) {
  using namespace packs;
  wait_for_earlier_kernels();
  constexpr int teams = norm_sum_teams<Team>, held = Team::slots * Team::lanes, all = held * width;
  __shared__ float exchange[teams * Team::exchanged];
  __shared__ Chunk memory[teams * 2 * held];
  const int thread = static_cast<int>(threadIdx.x), team = thread / Team::lanes, lane = thread % Team::lanes;
  float sums[norm_sum_kinds][Team::slots][width] = {};
  norm_rows_backward(Team::of_thread(thread, exchange), norm_sum_rows(blockIdx.x, gridDim.x, team, teams, n.z.rows), n,
                     gamma, NormSums<Team::slots>{sums});
  // One kind of sums after the other; first the lower halves of all packs, then the upper ones, so that the lanes of a
  // warp write neighbouring 16 bytes.
  const float* const totals = reinterpret_cast<const float*>(memory);  // (teams, all)
#pragma unroll                                                         // else `sums` would lie in memory
  for (int kind = 0; kind < norm_sum_kinds; ++kind) {
    __syncthreads();
    for (int s = 0; s < Team::slots; ++s) {
      for (int half = 0; half < 2; ++half) {
        std::memcpy(&memory[(team * 2 + half) * held + s * Team::lanes + lane], sums[kind][s] + 4 * half,
                    sizeof(Chunk));
      }
    }
    __syncthreads();
    for (int i = thread; i < all; i += teams * Team::lanes) {
      float total = 0.0f;
      for (int t = 0; t < teams; ++t) total += totals[t * all + i];
      const int column = i / 4 % held * width + i / 4 / held * 4 + i % 4;
      if (column < n.z.columns) parts(blockIdx.x, kind * n.z.columns + column) = total;
    }
  }
}

/// The backward pass with the sums of each block in a row of `parts`.
template <class Team, class T>
void norm_backward_sums_of(const Label& label, const packs::NormBackward<T>& n, const float* gamma,
                           core::Tensor<float> parts) {
  if (parts.rows <= 0 || n.z.columns <= 0) return;
  launch(label, norm_backward_sums<T, Team>,
         {.blocks = static_cast<unsigned>(parts.rows), .threads = norm_sum_threads<Team>}, n, gamma, parts);
}

}  // namespace bert_hpc::ops::kernel
#endif
