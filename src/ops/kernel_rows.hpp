// Launches for work that is shared by rows. On CUDA devices: one warp per row, and elements in 8-wide packs (see
// packs.hpp). On CPUs a row is one item with vector code inside. Only kernel files include this
// header.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/tensor.hpp"
#include "cuda/kernel_launch.hpp"
#include "kernel.hpp"
#include "packs.hpp"
#include "row_sum.hpp"

namespace bert_hpc::ops::kernel {

#if defined(KOKKOS_ENABLE_CUDA)
#define BERT_HPC_WARPS 1
inline constexpr bool in_warps = true;
#else
#define BERT_HPC_WARPS 0
inline constexpr bool in_warps = false;
#endif

/// The threads that work on a row of numbers; all of them get sums and maxima. On CPUs one thread with a fixed number
/// of vector lanes; on CUDA devices a warp, in which each thread takes every 32nd column.
struct RowTeam {
  int lane = 0;

  KOKKOS_INLINE_FUNCTION bool leads() const { return lane == 0; }

  /// body(j) for j in [0, count); the calls are independent.
  template <class Body>
  KOKKOS_INLINE_FUNCTION void each(std::int64_t count, const Body& body) const {
#if BERT_HPC_WARPS
    for (std::int64_t j = lane; j < count; j += packs::warp_lanes) body(j);
#else
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) body(j);
#endif
  }

  template <class T, class Term>
  KOKKOS_INLINE_FUNCTION T sum(std::int64_t count, const Term& term) const {
#if BERT_HPC_WARPS
    T total(0);
    each(count, [&](std::int64_t j) { total += term(j); });
#if defined(__CUDA_ARCH__)
    for (int distance = packs::warp_lanes / 2; distance > 0; distance /= 2) {
      total += __shfl_xor_sync(0xFFFFFFFFu, total, distance);
    }
#endif
    return total;
#else
    return sum_of<T>(count, term);
#endif
  }

  /// max term(j), at least `least`.
  template <class T, class Term>
  KOKKOS_INLINE_FUNCTION T max(std::int64_t count, T least, const Term& term) const {
#if BERT_HPC_WARPS
    T largest(least);
    each(count, [&](std::int64_t j) {
      const T value = term(j);
      largest = largest > value ? largest : value;
    });
#if defined(__CUDA_ARCH__)
    for (int distance = packs::warp_lanes / 2; distance > 0; distance /= 2) {
      const T value = __shfl_xor_sync(0xFFFFFFFFu, largest, distance);
      largest = largest > value ? largest : value;
    }
#endif
    return largest;
#else
    return max_of<T>(count, least, term);
#endif
  }

  /// The first j in [0, count) with the largest term(j), which is not NaN unless term(0) is NaN.
  template <class Term>
  KOKKOS_INLINE_FUNCTION std::int64_t first_of_largest(std::int64_t count, const Term& term) const {
    packs::Largest best{term(0), 0};
#if BERT_HPC_WARPS
    each(count, [&](std::int64_t j) { best.add(term(j), static_cast<int>(j)); });
#else
    for (int j = 1; j < static_cast<int>(count); ++j) best.add(term(j), j);
#endif
#if defined(__CUDA_ARCH__)
    for (int distance = packs::warp_lanes / 2; distance > 0; distance /= 2) {
      const float value = __shfl_xor_sync(0xFFFFFFFFu, best.value, distance);
      best.add(value, __shfl_xor_sync(0xFFFFFFFFu, best.index, distance));
    }
#endif
    return best.index;
  }

  /// Barrier: makes the writes of each thread visible to all.
  KOKKOS_INLINE_FUNCTION void meet() const {
#if defined(__CUDA_ARCH__)
    __syncwarp();
#endif
  }
};

#if BERT_HPC_WARPS
inline constexpr int warps_of_block = 4;

template <class Body>
__global__ void __launch_bounds__(warps_of_block* packs::warp_lanes) warps(std::int64_t count, const Body body) {
  wait_for_earlier_kernels();
  const std::int64_t item = std::int64_t{blockIdx.x} * warps_of_block + threadIdx.x / packs::warp_lanes;
  if (item < count) body(static_cast<int>(threadIdx.x % packs::warp_lanes), item);
}

/// body(lane, item) on all lanes of an item at once.
template <class Body>
void for_warps(const Label& label, std::int64_t count, const Body& body) {
  if (count <= 0) return;
  launch(label, warps<Body>,
         {.blocks = static_cast<unsigned>(divide_up(count, warps_of_block)),
          .threads = warps_of_block * packs::warp_lanes},
         count, body);
}

inline constexpr int threads_of_sum = 1024;

template <class Term, class Finish>
__global__ void __launch_bounds__(threads_of_sum) one_sum(std::int64_t count, const Term term, const Finish finish) {
  wait_for_earlier_kernels();
  using packs::warp_lanes;
  __shared__ double parts[threads_of_sum / warp_lanes];
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes, warp = static_cast<int>(threadIdx.x) / warp_lanes;
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += threads_of_sum) sum += term(i);
  for (int distance = warp_lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < threads_of_sum / warp_lanes; ++w) sum += parts[w];
  finish(sum);
}

template <class Body>
__global__ void __launch_bounds__(256) pack_rows(std::int64_t columns, const Body body) {
  wait_for_earlier_kernels();
  const std::int64_t pack = std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (pack * packs::width < columns) {
    body(std::int64_t{blockIdx.x}, pack * packs::width, packs::columns_of(pack, columns));
  }
}

/// body(row, first column, columns) for every 8-wide pack of every row.
template <class Body>
void for_packs(const Label& label, std::int64_t rows, std::int64_t columns, const Body& body) {
  if (rows <= 0 || columns <= 0) return;
  const std::int64_t pack_count = packs::count_of(columns);
  const std::int64_t threads = pack_count < 256 ? divide_up(pack_count, packs::warp_lanes) * packs::warp_lanes : 128;
  launch(label, pack_rows<Body>,
         {.blocks = dim3(static_cast<unsigned>(rows), static_cast<unsigned>(divide_up(pack_count, threads))),
          .threads = static_cast<unsigned>(threads)},
         columns, body);
}
#endif

/// finish(Σ term(i) over [0, count)), in double. The order depends only on `count`; on CPUs it is sequential.
template <class Term, class Finish>
void sum_then(const Label& label, std::int64_t count, const Term& term, const Finish& finish) {
#if BERT_HPC_WARPS
  launch(label, one_sum<Term, Finish>, {.blocks = 1, .threads = threads_of_sum}, count, term, finish);
#else
  for_items(
      label, 1, KOKKOS_LAMBDA(std::int64_t) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < count; ++i) sum += term(i);
        finish(sum);
      });
#endif
}

/// body(team, row) for rows in [0, count).
template <class Body>
void for_rows(const Label& label, std::int64_t count, const Body& body) {
#if BERT_HPC_WARPS
  for_warps(
      label, count, KOKKOS_LAMBDA(int lane, std::int64_t row) { body(RowTeam{lane}, row); });
#else
  for_items(
      label, count, KOKKOS_LAMBDA(std::int64_t row) { body(RowTeam{}, row); });
#endif
}

/// y_ij = f(j, x_ij); y may be x.
template <class F, class X, class Y>
void map(const char* name, core::Tensor<X> x, core::Tensor<Y> y, const F& f) {
  const Label label(name, bytes_of<X, Y>(y.size()));
#if BERT_HPC_WARPS
  for_packs(
      label, y.rows, y.columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t begin, int count) {
        float value[packs::width];
        packs::load(x.row(i) + begin, count, value);
        for (int j = 0; j < packs::width; ++j) {  // past the row the last column again: a test would be a branch
          value[j] = f(begin + (j < count ? j : count - 1), value[j]);
        }
        packs::store(value, count, y.row(i) + begin);
      });
#else
  for_elements(
      label, y.rows, y.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) = f(j, static_cast<float>(x(i, j))); });
#endif
}

/// y_ij = f(a_ij, b_ij); y may be a or b.
template <class F, class X, class Y>
void map(const char* name, core::Tensor<X> a, core::Tensor<X> b, core::Tensor<Y> y, const F& f) {
  const Label label(name, bytes_of<X, X, Y>(y.size()));
#if BERT_HPC_WARPS
  for_packs(
      label, y.rows, y.columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t begin, int count) {
        float first[packs::width], second[packs::width];
        packs::load(a.row(i) + begin, count, first);
        packs::load(b.row(i) + begin, count, second);
        for (int j = 0; j < packs::width; ++j) first[j] = f(first[j], second[j]);
        packs::store(first, count, y.row(i) + begin);
      });
#else
  for_elements(
      label, y.rows, y.columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        y(i, j) = f(static_cast<float>(a(i, j)), static_cast<float>(b(i, j)));
      });
#endif
}

}  // namespace bert_hpc::ops::kernel
