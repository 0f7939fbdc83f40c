// How kernels note the largest magnitude that they see; see ops/fp8_scales.hpp.
#pragma once

#include "kernel.hpp"

namespace bert_hpc::ops {

/// The magnitude as bits that are ordered as it is; NaN as infinity.
KOKKOS_INLINE_FUNCTION std::uint32_t magnitude_bits(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x) & 0x7FFFFFFFu;
  return bits < 0x7F800000u ? bits : 0x7F800000u;
}

/// Few threads find more than is noted already: most need no atomic operation.
KOKKOS_INLINE_FUNCTION void note(std::uint32_t* noted, std::uint32_t mine) {
  if (mine > *static_cast<const volatile std::uint32_t*>(noted)) Kokkos::atomic_fetch_max(noted, mine);
}

}  // namespace bert_hpc::ops
