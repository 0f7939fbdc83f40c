// Sums and maxima along a row in a fixed number of partial results that compilers keep in vector registers. The order
// of additions is explicit, so the bits depend neither on vectorization nor on threads.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "kernel.hpp"

namespace bert_hpc::ops::kernel {

/// Number of partial results: enough for four vectors, which hides the latency of an addition.
inline constexpr std::int64_t sum_lanes = on_gpu ? 1 : 32;

namespace detail {

template <std::int64_t lanes, class T, class Combine>
KOKKOS_INLINE_FUNCTION T fold(T* part, const Combine& combine) {
  if constexpr (lanes == 1) {
    return part[0];
  } else {
#pragma omp simd
    for (std::int64_t l = 0; l < lanes / 2; ++l) part[l] = combine(part[l], part[l + lanes / 2]);
    return fold<lanes / 2>(part, combine);
  }
}

/// Combines term(0) … term(count − 1): lane l takes every sum_lanes-th term, then the lanes are combined by halves.
template <class T, class Term, class Combine>
KOKKOS_INLINE_FUNCTION T reduce(std::int64_t count, T neutral, const Term& term, const Combine& combine) {
  T part[sum_lanes];
  std::int64_t j = sum_lanes;
  if (count < sum_lanes) {
    for (std::int64_t l = 0; l < sum_lanes; ++l) part[l] = neutral;
    j = 0;
  } else {  // lanes start with their first terms: zeroing them would take as long as adding
#pragma omp simd
    for (std::int64_t l = 0; l < sum_lanes; ++l) part[l] = term(l);
  }
  for (; j + sum_lanes <= count; j += sum_lanes) {
#pragma omp simd
    for (std::int64_t l = 0; l < sum_lanes; ++l) part[l] = combine(part[l], term(j + l));
  }
#pragma omp simd
  for (std::int64_t l = 0; l < count - j; ++l) part[l] = combine(part[l], term(j + l));
  return fold<sum_lanes>(part, combine);
}

}  // namespace detail

/// Σ term(j) over j in [0, count).
template <class T, class Term>
KOKKOS_INLINE_FUNCTION T sum_of(std::int64_t count, const Term& term) {
  return detail::reduce(count, T(0), term, [](T a, T b) { return a + b; });
}

/// max term(j) over j in [0, count), at least `least`.
template <class T, class Term>
KOKKOS_INLINE_FUNCTION T max_of(std::int64_t count, T least, const Term& term) {
  return detail::reduce(count, least, term, [](T a, T b) { return a > b ? a : b; });
}

}  // namespace bert_hpc::ops::kernel
