// The words of 32 bits that tiles of integers multiply: two numbers of 16 bits, or, on processors that multiply and add
// bytes (AVX512_VNNI, or with BERT_HPC_BYTE_WORDS the same in C++, so that tests run on any processor), four of 8.
//
// Pairs of 16 bits hold the same 8-bit numbers: the instructions of older processors for bytes would saturate. Sums are
// exact either way.
#pragma once

#include <cstdint>

#include "../isa/vector.hpp"
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace bert_hpc::ops::cpu {
namespace {

struct IntegerTypes {
  using Word = std::uint32_t;
  using Sum = std::int32_t;

  static IntVector factor(const std::uint32_t* word) { return broadcast_word(word); }
};

#if defined(__AVX512VNNI__) || defined(BERT_HPC_BYTE_WORDS)

struct Words : IntegerTypes {
  static constexpr int terms = 4;
  using Element = std::uint8_t;
  typedef std::uint8_t Elements __attribute__((vector_size(lanes)));

  /// sum + Σ of the four products of each lane, the bytes of a without sign and those of b with it.
  static IntVector multiply_add(IntVector a, IntVector b, IntVector sum) {
#if defined(__AVX512VNNI__)
    return reinterpret_cast<IntVector>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(a),
                                                           reinterpret_cast<__m512i>(b)));
#else
    for (int shift = 0; shift < 32; shift += 8) sum += ((a >> shift) & 255) * ((b << (24 - shift)) >> 24);
    return sum;
#endif
  }
};

#else

struct Words : IntegerTypes {
  static constexpr int terms = 2;
  using Element = std::uint16_t;
  typedef std::uint16_t Elements __attribute__((vector_size(2 * lanes)));

  /// sum + Σ of the two products of each lane.
  static IntVector multiply_add(IntVector a, IntVector b, IntVector sum) {
#if defined(__AVX512BW__)
    return sum +
           reinterpret_cast<IntVector>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
    return sum +
           reinterpret_cast<IntVector>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
    return sum +
           reinterpret_cast<IntVector>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
    return sum + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
  }
};

#endif

}  // namespace
}  // namespace bert_hpc::ops::cpu
