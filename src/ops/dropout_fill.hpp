// The bits of a run of dropout blocks, in column order: the same as ops::dropout_bits() block by block, but on x86
// several Philox blocks advance together, one in each 64-bit lane. A lane's upper half may hold rubbish: the 32 × 32 →
// 64 bit multiply of the vector units reads the lower halves only, which is all that Philox needs.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include "bert_hpc/ops/dropout.hpp"

#if defined(__AVX2__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

namespace bert_hpc::ops {

#if defined(__AVX2__) && !defined(__CUDACC__)

/// Blocks [first_block, first_block + 8) to bits[0 … 64).
inline void dropout_bits_of_8(const core::Dropout& dropout, std::uint64_t sample, std::uint32_t row,
                              std::uint32_t first_block, std::uint16_t* bits) {
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53u), multiplier1 = _mm256_set1_epi64x(0xCD9E8D57u);
  const std::uint32_t site = dropout.site | (static_cast<std::uint32_t>(sample >> 32) << 16);
  __m256i c0[2], c1[2], c2[2], c3[2];
  for (int half = 0; half < 2; ++half) {
    c0[half] = _mm256_add_epi64(_mm256_set1_epi64x(first_block + 4 * half), _mm256_set_epi64x(3, 2, 1, 0));
    c1[half] = _mm256_set1_epi64x(row);
    c2[half] = _mm256_set1_epi64x(static_cast<std::uint32_t>(sample));
    c3[half] = _mm256_set1_epi64x(site);
  }
  std::uint32_t k0 = dropout.key0, k1 = dropout.key1;
  for (int round = 0; round < 10; ++round) {
    const __m256i key0 = _mm256_set1_epi64x(k0), key1 = _mm256_set1_epi64x(k1);
    for (int half = 0; half < 2; ++half) {
      const __m256i product0 = _mm256_mul_epu32(c0[half], multiplier0);
      const __m256i product1 = _mm256_mul_epu32(c2[half], multiplier1);
      c0[half] = _mm256_xor_si256(_mm256_srli_epi64(product1, 32), _mm256_xor_si256(c1[half], key0));
      c2[half] = _mm256_xor_si256(_mm256_srli_epi64(product0, 32), _mm256_xor_si256(c3[half], key1));
      c1[half] = product1;
      c3[half] = product0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const __m256i low = _mm256_set1_epi64x(0xFFFFFFFFu);
  for (int half = 0; half < 2; ++half) {
    // Lane b: words 0 and 1, and words 2 and 3, of block b; then the blocks one behind another.
    const __m256i word01 = _mm256_or_si256(_mm256_and_si256(c0[half], low), _mm256_slli_epi64(c1[half], 32));
    const __m256i word23 = _mm256_or_si256(_mm256_and_si256(c2[half], low), _mm256_slli_epi64(c3[half], 32));
    const __m256i blocks02 = _mm256_unpacklo_epi64(word01, word23), blocks13 = _mm256_unpackhi_epi64(word01, word23);
    __m256i* out = reinterpret_cast<__m256i*>(bits + 32 * half);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(blocks02, blocks13, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(blocks02, blocks13, 0x31));
  }
}

#endif

/// Fills bits[0 … 8·blocks) with the 16-bit values that decide columns [8·first_block, 8·(first_block + blocks)) of row
/// `row` of sample `sample`. On the host up to 56 values behind them are overwritten too: round the array up to 64.
KOKKOS_INLINE_FUNCTION void fill_dropout_bits(const core::Dropout& dropout, std::int64_t sample, std::uint32_t row,
                                              std::uint32_t first_block, std::int64_t blocks, std::uint16_t* bits) {
#if defined(__AVX2__) && !defined(__CUDACC__)
  for (std::int64_t b = 0; b < blocks; b += 8) {
    dropout_bits_of_8(dropout, static_cast<std::uint64_t>(sample), row, first_block + static_cast<std::uint32_t>(b),
                      bits + 8 * b);
  }
#else
  for (std::int64_t b = 0; b < blocks; ++b) {
    const core::Philox4 words = dropout_bits(dropout, sample, row, first_block + static_cast<std::uint32_t>(b));
    for (int j = 0; j < 8; ++j) bits[8 * b + j] = static_cast<std::uint16_t>(words.word[j / 2] >> (16 * (j % 2)));
  }
#endif
}

}  // namespace bert_hpc::ops
