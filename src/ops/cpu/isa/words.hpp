// The 32-bit words of a packed operand and their multiplication in a tile: one float, or, on processors that multiply
// pairs of bf16 and sum them in fp32, two consecutive terms.
//
// vdpbf16ps (Intel's Software Developer's Manual; an AMD Zen 5 gives the same bits) adds the product of a pair's second
// elements, then that of its first elements, each with one rounding to nearest, and treats denormal operands and
// results as zero. Products of bf16 are exact in fp32, so the sum has the error of a chain of fused multiply-adds over
// as many terms. On other processors two multiply-adds give the same result except for denormals, so all other tests
// run anywhere.
#pragma once

#include <cstdint>

#include "source_reader.hpp"
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace bert_hpc::ops::cpu {
namespace {

// Words are read from matrices stored (length, count), `down` the terms with `stride` elements from one to the next, or
// stored (count, length), `along` the terms. `left` is the number of terms from the first of the word on; missing terms
// are 0.
struct FloatWords {
  static constexpr int terms = 1;
  using Word = float;
  using Sum = float;

  static float factor(const float* word) { return *word; }
  static Vector multiply_add(float a, Vector b, Vector sum) { return sum + a * b; }

  template <Source source>
  static float one_down(const ElementOf<source>* from, std::int64_t, std::int64_t) {
    return Reader<source>::one(from);
  }
  template <Source source>
  static Vector down(const ElementOf<source>* from, std::int64_t, std::int64_t) {
    return Reader<source>::vector(from);
  }
  template <Source source>
  static float one_along(const ElementOf<source>* from, std::int64_t) {
    return Reader<source>::one(from);
  }
  template <Source source>
  static Vector along(const ElementOf<source>* from) {
    return Reader<source>::vector(from);
  }
};

#if defined(__AVX512BF16__) || defined(BERT_HPC_WIDE_VECTORS)
#define BERT_HPC_PAIR_KERNELS 1

typedef std::uint16_t Shorts __attribute__((vector_size(4 * lanes)));

/// The bits of elements as bf16, in the lower halves of lanes. Rounding flushes denormals to zero, as the products do.
template <Source>
struct HalfBits;

template <>
struct HalfBits<Source::bf16> {
  static std::uint32_t one(const std::uint16_t* from) { return *from; }
  static Bits vector(const std::uint16_t* from) {
    return __builtin_convertvector(*reinterpret_cast<const UnalignedShorts*>(from), Bits);
  }
  static Vector along(const std::uint16_t* from) {
    Vector words;
    __builtin_memcpy(&words, from, sizeof words);
    return words;
  }
  static Vector interleaved(const std::uint16_t* first, const std::uint16_t* second) {
    return reinterpret_cast<Vector>(vector(first) | (vector(second) << 16));
  }
};

template <>
struct HalfBits<Source::fp32_as_bf16> {
  static std::uint32_t one(const float* from) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, *from);
    return (bits & 0x7F800000u) == 0 ? bits >> 16 & 0x8000u : core::bf16_of_float(*from);
  }
#if defined(__AVX512BF16__)
  static Bits vector(const float* from) {
    typedef std::uint16_t HalfShorts __attribute__((vector_size(2 * lanes)));
    return __builtin_convertvector(reinterpret_cast<HalfShorts>(_mm512_cvtneps_pbh(load(from))), Bits);
  }
  static Shorts both(const float* first, const float* second) {
    return reinterpret_cast<Shorts>(_mm512_cvtne2ps_pbh(load(second), load(first)));
  }
#else
  static Bits vector(const float* from) {
    const Bits bits = reinterpret_cast<Bits>(load(from));
    const Bits rounded = reinterpret_cast<Bits>(Reader<Source::fp32_as_bf16>::vector(from)) >> 16;
    return (bits & 0x7F800000u) == 0 ? bits >> 16 & 0x8000u : rounded;
  }
  static Shorts both(const float* first, const float* second) {
    Shorts result;
    for (int l = 0; l < lanes; ++l) {
      result[l] = static_cast<std::uint16_t>(one(first + l));
      result[lanes + l] = static_cast<std::uint16_t>(one(second + l));
    }
    return result;
  }
#endif
  static Vector along(const float* from) {
    return reinterpret_cast<Vector>(both(from, from + lanes));
  }
  static Vector interleaved(const float* first, const float* second) {
    Shorts order;
    for (int l = 0; l < lanes; ++l) {
      order[2 * l] = static_cast<std::uint16_t>(l);
      order[2 * l + 1] = static_cast<std::uint16_t>(lanes + l);
    }
    return reinterpret_cast<Vector>(__builtin_shuffle(both(first, second), order));
  }
};

struct PairWords {
  static constexpr int terms = 2;
  using Word = float;
  using Sum = float;

  static IntVector factor(const float* word) { return broadcast_word(word); }
  static Vector multiply_add(IntVector a, Vector b, Vector sum) {
#if defined(__AVX512BF16__)
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
#else
    const Bits first = reinterpret_cast<Bits>(a), second = reinterpret_cast<Bits>(b);
    sum += reinterpret_cast<Vector>(first & 0xFFFF0000u) * reinterpret_cast<Vector>(second & 0xFFFF0000u);
    return sum + reinterpret_cast<Vector>(first << 16) * reinterpret_cast<Vector>(second << 16);
#endif
  }

  template <Source source>
  static float one_down(const ElementOf<source>* from, std::int64_t stride, std::int64_t left) {
    const std::uint32_t second = left > 1 ? HalfBits<source>::one(from + stride) : 0;
    return __builtin_bit_cast(float, HalfBits<source>::one(from) | second << 16);
  }
  template <Source source>
  static Vector down(const ElementOf<source>* from, std::int64_t stride, std::int64_t left) {
    if (left < terms) return reinterpret_cast<Vector>(HalfBits<source>::vector(from));
    return HalfBits<source>::interleaved(from, from + stride);
  }
  template <Source source>
  static float one_along(const ElementOf<source>* from, std::int64_t left) {
    return one_down<source>(from, 1, left);
  }
  template <Source source>
  static Vector along(const ElementOf<source>* from) {
    return HalfBits<source>::along(from);
  }
};
#endif

}  // namespace
}  // namespace bert_hpc::ops::cpu
