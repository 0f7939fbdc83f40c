// Vectors as wide as those of the instruction set that this file is compiled for, or of 512 bits with
// BERT_HPC_WIDE_VECTORS, which the compiler then emulates with narrower ones, so that tests run on any processor.
// Everything has internal linkage: the linker could merge a function shared with other files into a copy that the
// processor cannot run.
#pragma once

#include <cstdint>

namespace bert_hpc::ops::cpu {
namespace {

#if defined(__AVX512F__) || defined(BERT_HPC_WIDE_VECTORS)
constexpr std::int64_t lanes = 16, tile_rows = 12;
#elif defined(__AVX2__)
constexpr std::int64_t lanes = 8, tile_rows = 6;
#else
constexpr std::int64_t lanes = 4, tile_rows = 6;
#endif
constexpr std::int64_t panel = 2 * lanes;

typedef float Vector __attribute__((vector_size(4 * lanes)));
typedef float UnalignedVector __attribute__((vector_size(4 * lanes), aligned(4), may_alias));
typedef std::int32_t IntVector __attribute__((vector_size(4 * lanes)));
typedef std::int32_t UnalignedInts __attribute__((vector_size(4 * lanes), aligned(4), may_alias));
typedef std::uint16_t UnalignedShorts __attribute__((vector_size(2 * lanes), aligned(2), may_alias));
typedef std::uint8_t UnalignedBytes __attribute__((vector_size(lanes), aligned(1), may_alias));

inline Vector load(const float* p) {
  return *reinterpret_cast<const UnalignedVector*>(p);
}
inline IntVector load(const std::int32_t* p) {
  return *reinterpret_cast<const UnalignedInts*>(p);
}
inline IntVector load(const std::uint32_t* p) {
  return *reinterpret_cast<const UnalignedInts*>(p);
}
inline void store(float* p, Vector x) {
  *reinterpret_cast<UnalignedVector*>(p) = x;
}
inline void store(std::int32_t* p, IntVector x) {
  *reinterpret_cast<UnalignedInts*>(p) = x;
}
inline Vector broadcast(float x) {
  return x - Vector{};
}
/// The 32 bits at `word` in each lane.
inline IntVector broadcast_word(const void* word) {
  std::int32_t bits;
  __builtin_memcpy(&bits, word, sizeof bits);
  return IntVector{} + bits;
}
inline Vector larger(Vector a, Vector b) {
  return a > b ? a : b;
}

/// Sums the lanes by halves, in a fixed order.
inline float sum_of_lanes(Vector x) {
  float parts[lanes];
  __builtin_memcpy(parts, &x, sizeof x);
  for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) parts[l] += parts[l + half];
  }
  return parts[0];
}
inline float largest_lane(Vector x) {
  float parts[lanes];
  __builtin_memcpy(parts, &x, sizeof x);
  for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) parts[l] = parts[l] > parts[l + half] ? parts[l] : parts[l + half];
  }
  return parts[0];
}

/// All bits set in lanes below `count`.
inline IntVector lanes_below(std::int64_t count) {
  IntVector index;
  for (std::int64_t l = 0; l < lanes; ++l) index[l] = static_cast<std::int32_t>(l);
  return index < static_cast<std::int32_t>(count);
}

/// exp(x) for x ≤ 0 (and slightly above), like fast_exp in ops/vector_math.hpp, but at least exp(−87.3) = 1.2e-38.
inline Vector exp_of_negative(Vector x) {
  constexpr float shift = 12582912.0f;  // 1.5·2^23: adding it leaves the nearest integer in the lowest bits
  const Vector low = broadcast(-87.3f);
  const Vector t = x < low ? low : x;
  const Vector shifted = t * 1.44269504f + shift;
  const Vector n = shifted - shift;
  const Vector r = n * -1.42860677e-6f + (n * -0.693145752f + t);
  Vector p = r * 0.00138131436f + 0.00836941879f;
  p = p * r + 0.041668456f;
  p = p * r + 0.166665152f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const IntVector exponent = (reinterpret_cast<IntVector>(shifted) << 23) + 0x3F800000;
  return p * reinterpret_cast<Vector>(exponent);
}

}  // namespace
}  // namespace bert_hpc::ops::cpu

#define BERT_HPC_TEXT_OF(name) #name
#define BERT_HPC_TEXT(name) BERT_HPC_TEXT_OF(name)
