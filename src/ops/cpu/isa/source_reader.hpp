// Access to elements of each Source (../tile_kernels.hpp): reads one element (`one`) or vectors, and rounds for
// storage.
#pragma once

#include <cstdint>

#include "../tile_kernels.hpp"
#include "bert_hpc/core/float16.hpp"
#include "vector.hpp"
#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace bert_hpc::ops::cpu {
namespace {

typedef unsigned Bits __attribute__((vector_size(lanes * 4)));

#if defined(__F16C__) && !defined(__AVX512F__)
/// The vector whose groups of eight lanes, beginning at lane `at`, are eight(at).
template <class Eight>
inline Vector by_eights(const Eight& eight) {
  Vector result;
  for (std::int64_t at = 0; at < lanes; at += 8) {
    const __m256 part = eight(at);
    __builtin_memcpy(reinterpret_cast<char*>(&result) + at * sizeof(float), &part, sizeof part);
  }
  return result;
}
#endif

template <Source>
struct Reader;

template <>
struct Reader<Source::fp32> {
  using Element = float;
  static float one(const float* from) { return *from; }
  static Vector vector(const float* from) { return load(from); }
};

template <>
struct Reader<Source::bf16> {
  using Element = std::uint16_t;
  static float one(const std::uint16_t* from) { return core::float_of_bf16(*from); }
  static std::uint16_t rounded(float x) { return core::bf16_of_float(x); }
  static Vector vector(const std::uint16_t* from) {
    const UnalignedShorts bits = *reinterpret_cast<const UnalignedShorts*>(from);
    return reinterpret_cast<Vector>(__builtin_convertvector(bits, Bits) << 16);
  }
};

template <>
struct Reader<Source::fp16> {
  using Element = std::uint16_t;
  static float one(const std::uint16_t* from) { return core::float_of_fp16(*from); }
  static std::uint16_t rounded(float x) { return core::fp16_of_float(x); }
  static Vector vector(const std::uint16_t* from) {
#if defined(__AVX512F__)
    return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__F16C__)
    return by_eights([from](std::int64_t at) {
      return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
    });
#else
    Vector result;
    for (int l = 0; l < lanes; ++l) result[l] = one(from + l);
    return result;
#endif
  }
};

template <>
struct Reader<Source::fp32_as_bf16> {
  using Element = float;
  static float one(const float* from) { return core::float_of_bf16(core::bf16_of_float(*from)); }
  static Vector vector(const float* from) {
    const Bits bits = reinterpret_cast<Bits>(load(from));
    const Bits rounded = bits + 0x7FFFu + ((bits >> 16) & 1u), quiet = bits | 0x400000u;
    const Bits chosen = (bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded;
    return reinterpret_cast<Vector>(chosen & 0xFFFF0000u);
  }
};

template <>
struct Reader<Source::fp32_as_fp16> {
  using Element = float;
  static float one(const float* from) { return core::float_of_fp16(core::fp16_of_float(*from)); }
  static Vector vector(const float* from) {
#if defined(__AVX512F__)
    return _mm512_maskz_cvtph_ps(0xFFFF, _mm512_maskz_cvtps_ph(0xFFFF, load(from), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    return by_eights([from](std::int64_t at) {
      return _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(from + at), _MM_FROUND_TO_NEAREST_INT));
    });
#else
    Vector result;
    for (int l = 0; l < lanes; ++l) result[l] = one(from + l);
    return result;
#endif
  }
};

template <Source source>
using ElementOf = typename Reader<source>::Element;

}  // namespace
}  // namespace bert_hpc::ops::cpu
