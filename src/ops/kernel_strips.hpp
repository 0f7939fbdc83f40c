// Launches of sums over rows (strips.hpp): one for several sums of different matrices, so that small ones cost no
// launch. Only kernel files include this header.
#pragma once

#include "kernel_rows.hpp"
#include "strips.hpp"

#if BERT_HPC_WARPS
#include <cooperative_groups.h>
#endif

namespace bert_hpc::ops::kernel {

/// finish(column, kind, total) gets each of `kinds` sums over `rows` rows of every column. Without rows the sums are 0,
/// without columns there are none.
template <int kinds_, class Term, class Finish>
struct StripSums {
  static constexpr int kinds = kinds_;
  std::int64_t rows, columns;
  Term term;
  Finish finish;

  KOKKOS_INLINE_FUNCTION std::int64_t strips() const { return packs::strips_of(columns); }
};

/// No matrix.
struct NoStripSums {
  static constexpr int kinds = 0;
  static constexpr std::int64_t rows = 0;
  KOKKOS_INLINE_FUNCTION std::int64_t strips() const { return 0; }
};

template <int kinds, class Term, class Finish>
StripSums<kinds, Term, Finish> strip_sums(std::int64_t rows, std::int64_t columns, const Term& term,
                                          const Finish& finish) {
  return {rows, columns, term, finish};
}

#if BERT_HPC_WARPS
/// Part blockIdx.y of a strip, whose parts are a cluster; or all parts, if the block is `alone`.
template <class Sums>
__device__ void sum_strip(int strip, const Sums& work, bool alone) {
  using namespace packs;
  constexpr int size = Sums::kinds * width, all = strip_packs * size;
  __shared__ float warp_sums[part_warps][all], part_sums[strip_parts][all];
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes, warp = static_cast<int>(threadIdx.x) / warp_lanes;
  const int i = static_cast<int>(threadIdx.x);
  const int first_part = alone ? 0 : static_cast<int>(blockIdx.y), end = alone ? strip_parts : first_part + 1;
  for (int part = first_part; part < end; ++part) {
    float sums[size];
    strip_part(part * rows_of_part + warp * rows_of_warp + lane / strip_packs, work.rows,
               std::int64_t{strip} * strip_packs + lane % strip_packs, work.columns, work.term, sums);
    for (int k = 0; k < size; ++k) {
      for (int apart = warp_lanes / 2; apart >= strip_packs; apart /= 2) {
        sums[k] += __shfl_xor_sync(0xFFFFFFFFu, sums[k], apart);
      }
      if (lane < strip_packs) warp_sums[warp][lane * size + k] = sums[k];
    }
    __syncthreads();
    if (i < all) {
      float total = 0.0f;
      for (int w = 0; w < part_warps; ++w) total += warp_sums[w][i];
      part_sums[part][i] = total;
    }
    __syncthreads();
  }
#if __CUDA_ARCH__ >= 900
  const auto cluster = cooperative_groups::this_cluster();
  if (!alone) cluster.sync();
#endif
  if (first_part == 0 && i < all) {
    float total = 0.0f;
    for (int part = 0; part < strip_parts; ++part) {
      const float* from = part_sums[part];
#if __CUDA_ARCH__ >= 900
      if (!alone) from = cluster.map_shared_rank(from, static_cast<unsigned>(part));
#endif
      total += from[i];
    }
    const std::int64_t column = std::int64_t{strip} * columns_of_strip + i / size * width + i % width;
    if (column < work.columns) work.finish(column, i % size / width, total);
  }
#if __CUDA_ARCH__ >= 900
  if (!alone) cluster.sync();  // shared memory of the other parts is read until here
#endif
}

/// Whether a strip of so many rows has one block of a cluster for itself: then a thread has one row at most. Partial
/// sums of layer norms are such matrices; with a cluster for each strip a launch would have more blocks than a device
/// runs at once.
__host__ __device__ inline bool is_for_one_block(std::int64_t rows) {
  return rows <= packs::strip_rows;
}

/// Number of clusters of `parts` blocks that add a matrix' sums.
template <class Sums>
__host__ __device__ int clusters_of(const Sums& work, int parts) {
  const auto strips = static_cast<int>(work.strips());
  return is_for_one_block(work.rows) ? (strips + parts - 1) / parts : strips;
}

/// The part of this block in a cluster's sums.
template <class Sums>
__device__ void sum_strips_of_cluster(int cluster, const Sums& work) {
  const bool alone = gridDim.y == 1 || is_for_one_block(work.rows);
  const int strip = alone ? cluster * static_cast<int>(gridDim.y) + static_cast<int>(blockIdx.y) : cluster;
  if (strip < work.strips()) sum_strip(strip, work, alone);
}

/// Blocks of a multiprocessor: 64 registers of a thread are enough for one kind of sums.
template <class First>
inline constexpr int strip_blocks = First::kinds > 1 ? 3 : 4;

template <class First, class Second, class Third>
__global__ void __launch_bounds__(packs::part_threads, strip_blocks<First>)
    sums_of_strips(const First first, const Second second, const Third third) {
  wait_for_earlier_kernels();
  const int cluster = static_cast<int>(blockIdx.x), parts = static_cast<int>(gridDim.y);
  const int of_second = cluster - clusters_of(first, parts), of_third = of_second - clusters_of(second, parts);
  if (of_second < 0) return sum_strips_of_cluster(cluster, first);
  if constexpr (Second::kinds > 0) {
    if (of_third < 0) return sum_strips_of_cluster(of_second, second);
  }
  if constexpr (Third::kinds > 0) sum_strips_of_cluster(of_third, third);
}
#endif

/// All sums of up to three matrices in one launch.
template <class First, class Second = NoStripSums, class Third = NoStripSums>
void sum_strips(const Label& label, const First& first, const Second& second = {}, const Third& third = {}) {
  const std::int64_t strips = first.strips() + second.strips() + third.strips();
  if (strips <= 0) return;
#if BERT_HPC_WARPS
  void (*const kernel)(First, Second, Third) = sums_of_strips<First, Second, Third>;
  static const int parts = is_for_hopper(reinterpret_cast<const void*>(kernel)) ? packs::strip_parts : 1;
  const int clusters = clusters_of(first, parts) + clusters_of(second, parts) + clusters_of(third, parts);
  const auto in_cluster = static_cast<unsigned>(parts);
  launch(label, kernel,
         {.blocks = dim3(static_cast<unsigned>(clusters), in_cluster),
          .threads = packs::part_threads,
          .cluster = in_cluster},
         first, second, third);
#else
  for_items(label, strips, [=](std::int64_t item) {
    const auto sum_if_mine = [&item](const auto& work) {
      constexpr int kinds = std::decay_t<decltype(work)>::kinds;
      if constexpr (kinds > 0) {
        if (item >= 0 && item < work.strips()) {
          packs::serial_strip<kinds>(item, work.rows, work.columns, work.term, work.finish);
        }
        item -= work.strips();
      }
    };
    sum_if_mine(first);
    sum_if_mine(second);
    sum_if_mine(third);
  });
#endif
}

/// As above, of one matrix.
template <int kinds, class Term, class Finish>
void for_strips(const Label& label, std::int64_t rows, std::int64_t columns, const Term& term, const Finish& finish) {
  sum_strips(label, strip_sums<kinds>(rows, columns, term, finish));
}

}  // namespace bert_hpc::ops::kernel
