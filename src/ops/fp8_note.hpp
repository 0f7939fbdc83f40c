// Packs that kernels round to 8 bits, and the largest magnitude that they record (ops/fp8_scales.hpp).
#pragma once

#include "kernel.hpp"
#include "packs.hpp"

namespace bert_hpc::ops {

/// A source of packs: fetch() reads one, values() computes its numbers from what was read. Here they are a matrix'.
template <class T>
struct AsStored {
  using Fetched = packs::Stored<T>;

  core::Tensor<const T> x;

  KOKKOS_INLINE_FUNCTION Fetched fetch(std::int64_t row, std::int64_t begin, int count) const {
    return packs::fetch(x.row(row) + begin, count);
  }
  KOKKOS_INLINE_FUNCTION static void values(const Fetched& fetched, float (&value)[packs::width]) {
    packs::widen(fetched, value);
  }
};

/// The bits of the magnitude, whose integer order is that of the magnitudes; NaN counts as infinity.
KOKKOS_INLINE_FUNCTION std::uint32_t magnitude_bits(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x) & 0x7FFFFFFFu;
  return bits < 0x7F800000u ? bits : 0x7F800000u;
}

/// The largest magnitude of eight values.
KOKKOS_INLINE_FUNCTION std::uint32_t largest_magnitude(const float (&value)[packs::width]) {
  std::uint32_t largest = 0;
  for (int j = 0; j < packs::width; ++j) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value[j]) & 0x7FFFFFFFu;
    largest = bits > largest ? bits : largest;
  }
  return largest < 0x7F800000u ? largest : 0x7F800000u;  // the bits of NaNs are the largest
}

/// Records the maximum of a row on CPUs. It rarely exceeds the recorded value, so most rows need no atomic operation.
/// GPUs record the maximum of a block (kernel_blocks.hpp).
KOKKOS_INLINE_FUNCTION void note(std::uint32_t* noted, std::uint32_t mine) {
  if (mine > *static_cast<const volatile std::uint32_t*>(noted)) Kokkos::atomic_fetch_max(noted, mine);
}

}  // namespace bert_hpc::ops
