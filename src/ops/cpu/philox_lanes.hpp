// Eight Philox4x32-10 blocks at once, one in each 64-bit lane, for dropout on CPUs. The upper half of a lane may hold
// garbage: the 32 × 32 → 64 bit vector multiply reads only the lower halves, which is all that Philox needs. The
// results are those of core::philox(). Everything has internal linkage, because files of several instruction sets
// include this header.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace bert_hpc::ops::cpu {

/// Common to the eight blocks: counter words 2 and 3, and the key.
struct PhiloxStream {
  std::uint32_t c2 = 0, c3 = 0, key0 = 0, key1 = 0;
};

#if defined(__AVX2__)

struct PhiloxCounters {
  __m256i word0[2], word1[2];  ///< counter words 0 and 1 of blocks 0 … 3 and 4 … 7
};

/// Counters with word 0 = first … first + 7 and word 1 = row.
static inline PhiloxCounters consecutive_counters(std::uint32_t first, std::uint32_t row) {
  const __m256i lanes = _mm256_set_epi64x(3, 2, 1, 0), rows = _mm256_set1_epi64x(row);
  const __m256i low = _mm256_add_epi64(_mm256_set1_epi64x(first), lanes);
  return {{low, _mm256_add_epi64(low, _mm256_set1_epi64x(4))}, {rows, rows}};
}

/// Counters with words 0 and 1 from arrays of eight.
static inline PhiloxCounters listed_counters(const std::uint32_t* word0, const std::uint32_t* word1) {
  const auto load = [](const std::uint32_t* words) {
    return _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
  };
  return {{load(word0), load(word0 + 4)}, {load(word1), load(word1 + 4)}};
}

/// 8 × 128 bits as 64 16-bit values, block by block, low halves of words first.
static inline void philox_of_8(const PhiloxCounters& counters, const PhiloxStream& stream, std::uint16_t* bits) {
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53u), multiplier1 = _mm256_set1_epi64x(0xCD9E8D57u);
  const __m256i weyl0 = _mm256_set1_epi64x(0x9E3779B9u), weyl1 = _mm256_set1_epi64x(0xBB67AE85u);
  __m256i key0 = _mm256_set1_epi64x(stream.key0), key1 = _mm256_set1_epi64x(stream.key1);
  __m256i c0[2], c1[2], c2[2], c3[2];
  for (int half = 0; half < 2; ++half) {
    c0[half] = counters.word0[half];
    c1[half] = counters.word1[half];
    c2[half] = _mm256_set1_epi64x(stream.c2);
    c3[half] = _mm256_set1_epi64x(stream.c3);
  }
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    for (int half = 0; half < 2; ++half) {
      const __m256i product0 = _mm256_mul_epu32(c0[half], multiplier0);
      const __m256i product1 = _mm256_mul_epu32(c2[half], multiplier1);
      c0[half] = _mm256_xor_si256(_mm256_srli_epi64(product1, 32), _mm256_xor_si256(c1[half], key0));
      c2[half] = _mm256_xor_si256(_mm256_srli_epi64(product0, 32), _mm256_xor_si256(c3[half], key1));
      c1[half] = product1;
      c3[half] = product0;
    }
    key0 = _mm256_add_epi32(key0, weyl0);
    key1 = _mm256_add_epi32(key1, weyl1);
  }
  for (int half = 0; half < 2; ++half) {
    // Lane b holds words 0 and 1 (then words 2 and 3) of block b; the stores put the blocks in order.
    const __m256i word01 = _mm256_blend_epi32(c0[half], _mm256_slli_epi64(c1[half], 32), 0xAA);
    const __m256i word23 = _mm256_blend_epi32(c2[half], _mm256_slli_epi64(c3[half], 32), 0xAA);
    const __m256i blocks02 = _mm256_unpacklo_epi64(word01, word23), blocks13 = _mm256_unpackhi_epi64(word01, word23);
    __m256i* out = reinterpret_cast<__m256i*>(bits + 32 * half);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(blocks02, blocks13, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(blocks02, blocks13, 0x31));
  }
}

#else

struct PhiloxCounters {
  std::uint32_t word0[8], word1[8];
};

static inline PhiloxCounters consecutive_counters(std::uint32_t first, std::uint32_t row) {
  PhiloxCounters counters;
  for (std::uint32_t lane = 0; lane < 8; ++lane) {
    counters.word0[lane] = first + lane;
    counters.word1[lane] = row;
  }
  return counters;
}

static inline PhiloxCounters listed_counters(const std::uint32_t* word0, const std::uint32_t* word1) {
  PhiloxCounters counters;
  for (int lane = 0; lane < 8; ++lane) {
    counters.word0[lane] = word0[lane];
    counters.word1[lane] = word1[lane];
  }
  return counters;
}

static inline void philox_of_8(const PhiloxCounters& counters, const PhiloxStream& stream, std::uint16_t* bits) {
  std::uint32_t c0[8], c1[8], c2[8], c3[8], key0 = stream.key0, key1 = stream.key1;
  for (int lane = 0; lane < 8; ++lane) {
    c0[lane] = counters.word0[lane];
    c1[lane] = counters.word1[lane];
    c2[lane] = stream.c2;
    c3[lane] = stream.c3;
  }
  for (int round = 0; round < 10; ++round) {
    for (int lane = 0; lane < 8; ++lane) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * c0[lane];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * c2[lane];
      c0[lane] = static_cast<std::uint32_t>(product1 >> 32) ^ c1[lane] ^ key0;
      c2[lane] = static_cast<std::uint32_t>(product0 >> 32) ^ c3[lane] ^ key1;
      c1[lane] = static_cast<std::uint32_t>(product1);
      c3[lane] = static_cast<std::uint32_t>(product0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int lane = 0; lane < 8; ++lane) {
    const std::uint32_t words[4] = {c0[lane], c1[lane], c2[lane], c3[lane]};
    for (int j = 0; j < 8; ++j) bits[8 * lane + j] = static_cast<std::uint16_t>(words[j / 2] >> (16 * (j % 2)));
  }
}

#endif

}  // namespace bert_hpc::ops::cpu
