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
  KOKKOS_INLINE_FUNCTION std::int64_t strips() const { return 0; }
};

template <int kinds, class Term, class Finish>
StripSums<kinds, Term, Finish> strip_sums(std::int64_t rows, std::int64_t columns, const Term& term,
                                          const Finish& finish) {
  return {rows, columns, term, finish};
}

#if BERT_HPC_WARPS
/// Part blockIdx.y of a strip, whose parts are a cluster; or all parts, if a strip has one block.
template <class Sums>
__device__ void sum_strip(std::int64_t strip, const Sums& work) {
  using namespace packs;
  constexpr int size = Sums::kinds * width, all = strip_packs * size;
  __shared__ float warp_sums[part_warps][all], part_sums[strip_parts][all];
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes, warp = static_cast<int>(threadIdx.x) / warp_lanes;
  const int i = static_cast<int>(threadIdx.x);
  for (int part = static_cast<int>(blockIdx.y); part < strip_parts; part += static_cast<int>(gridDim.y)) {
    float sums[size];
    strip_part(part * rows_of_part + warp * rows_of_warp + lane / strip_packs, work.rows,
               strip * strip_packs + lane % strip_packs, work.columns, work.term, sums);
    for (int k = 0; k < size; ++k) {
      for (int distance = warp_lanes / 2; distance >= strip_packs; distance /= 2) {
        sums[k] += __shfl_xor_sync(0xFFFFFFFFu, sums[k], distance);
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
  const bool in_cluster = gridDim.y > 1;
#if __CUDA_ARCH__ >= 900
  const auto cluster = cooperative_groups::this_cluster();
  if (in_cluster) cluster.sync();
#endif
  if (blockIdx.y == 0 && i < all) {
    float total = 0.0f;
    for (int part = 0; part < strip_parts; ++part) {
      const float* from = part_sums[part];
#if __CUDA_ARCH__ >= 900
      if (in_cluster) from = cluster.map_shared_rank(from, static_cast<unsigned>(part));
#endif
      total += from[i];
    }
    const std::int64_t column = strip * columns_of_strip + i / size * width + i % width;
    if (column < work.columns) work.finish(column, i % size / width, total);
  }
#if __CUDA_ARCH__ >= 900
  if (in_cluster) cluster.sync();  // shared memory of the other parts is read until here
#endif
}

/// Blocks of a multiprocessor: 64 registers of a thread are enough for one kind of sums.
template <class First>
inline constexpr int strip_blocks = First::kinds > 1 ? 3 : 4;

template <class First, class Second, class Third>
__global__ void __launch_bounds__(packs::part_threads, strip_blocks<First>)
    sums_of_strips(const First first, const Second second, const Third third) {
  wait_for_earlier_kernels();
  const std::int64_t strip = blockIdx.x, of_second = strip - first.strips(), of_third = of_second - second.strips();
  if (of_second < 0) return sum_strip(strip, first);
  if constexpr (Second::kinds > 0) {
    if (of_third < 0) return sum_strip(of_second, second);
  }
  if constexpr (Third::kinds > 0) sum_strip(of_third, third);
}
#endif

/// All sums of up to three matrices in one launch.
template <class First, class Second = NoStripSums, class Third = NoStripSums>
void sum_strips(const Label& label, const First& first, const Second& second = {}, const Third& third = {}) {
  const std::int64_t strips = first.strips() + second.strips() + third.strips();
  if (strips <= 0) return;
#if BERT_HPC_WARPS
  void (*const kernel)(First, Second, Third) = sums_of_strips<First, Second, Third>;
  static const unsigned parts = is_for_hopper(reinterpret_cast<const void*>(kernel)) ? packs::strip_parts : 1;
  launch(label, kernel,
         {.blocks = dim3(static_cast<unsigned>(strips), parts), .threads = packs::part_threads, .cluster = parts},
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
