// The bits of consecutive dropout blocks in column order. The result equals ops::dropout_bits() block by block, but on
// CPUs eight Philox blocks are computed together.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "bert_hpc/ops/dropout.hpp"
#include "kernel.hpp"
#if !BERT_HPC_KERNELS_ON_GPU
#include "cpu/philox_lanes.hpp"
#endif

namespace bert_hpc::ops {

/// Fills bits[0 … 8·blocks) with the 16-bit values that decide columns [8·first_block, 8·(first_block + blocks)) of row
/// `row` of sample `sample`. On the host up to 56 more values are overwritten: round the array size up to a multiple of
/// 64.
KOKKOS_INLINE_FUNCTION void fill_dropout_bits(const core::Dropout& dropout, std::int64_t sample, std::uint32_t row,
                                              std::uint32_t first_block, std::int64_t blocks, std::uint16_t* bits) {
#if BERT_HPC_KERNELS_ON_GPU
  for (std::int64_t b = 0; b < blocks; ++b) {
    const core::Philox4 words = dropout_bits(dropout, sample, row, first_block + static_cast<std::uint32_t>(b));
    for (int j = 0; j < 8; ++j) bits[8 * b + j] = static_cast<std::uint16_t>(words.word[j / 2] >> (16 * (j % 2)));
  }
#else
  const std::uint64_t s = static_cast<std::uint64_t>(sample);
  const cpu::PhiloxStream stream{static_cast<std::uint32_t>(s),
                                 dropout.site | (static_cast<std::uint32_t>(s >> 32) << 16), dropout.key0,
                                 dropout.key1};
  for (std::int64_t b = 0; b < blocks; b += 8) {
    cpu::philox_of_8(cpu::consecutive_counters(first_block + static_cast<std::uint32_t>(b), row), stream, bits + 8 * b);
  }
#endif
}

/// out = in · keep · scale for a range of columns; out may be in.
template <class In, class Out>
KOKKOS_INLINE_FUNCTION void apply_dropout(std::int64_t count, const std::uint16_t* bits, std::uint32_t threshold,
                                          float scale, const In* in, Out* out) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) out[j] = in[j] * (bits[j] >= threshold ? scale : 0.0f);
}

}  // namespace bert_hpc::ops
