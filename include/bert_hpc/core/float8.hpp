// The two 8-bit floating-point formats of Micikevicius et al., "FP8 formats for deep learning", 2022, as bit patterns:
// E4M3 (4 exponent bits, 3 fraction bits, no infinities, up to 448) for activations and weights, E5M2 (IEEE 754's form,
// up to 57344) for gradients. Conversions from float round to nearest, ties to even, and saturate: larger values and
// infinity become the largest number. NaN stays NaN. Straight-line code, as in float16.hpp; one instruction on GPUs of
// compute capability 8.9 and later.
//
// Numbers are multiplied by a scale before rounding. Scales are powers of two, so scaling back is exact and a
// scaled-back 8-bit number is a bf16 number: products of either form have the same value.
#pragma once

#include <cstdint>

#include "bert_hpc/core/device.hpp"

namespace bert_hpc::core {

enum class Float8 : std::uint8_t { e4m3, e5m2 };

namespace detail {

// Not in the templates themselves: nvcc 13.0 rejects the builtin there.
BERT_HPC_DEVICE std::uint32_t bits_of(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}
BERT_HPC_DEVICE float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

/// What distinguishes the formats.
template <Float8 format>
struct Float8Fields {
  static constexpr bool wide = format == Float8::e5m2;  // wide exponent
  static constexpr std::uint32_t fraction_bits = wide ? 2 : 3, bias = wide ? 15 : 7;
  static constexpr std::uint32_t largest = wide ? 0x7Bu : 0x7Eu, nan = 0x7Fu;
  static constexpr std::uint32_t shift = 23 - fraction_bits;  // distance to the fraction bits of a float
  static constexpr std::uint32_t rebias = (127u - bias) << 23, smallest_normal = (128u - bias) << 23;
  static constexpr float smallest = wide ? 0x1p-14f : 0x1p-6f;  // the normal number with these bits
  // A power of two at which the last bit of a float has the value of this format's smallest subnormal bit.
  static constexpr float coarse = wide ? 0x1p7f : 0x1p14f;
  static constexpr std::uint32_t coarse_bits = (wide ? 134u : 141u) << 23;
};

}  // namespace detail

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
namespace detail {

/// One instruction rounds two numbers.
template <Float8 format>
BERT_HPC_DEVICE std::uint16_t converted_pair(float lower, float upper) {
  std::uint16_t pair;
  if constexpr (format == Float8::e4m3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(upper), "f"(lower));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(upper), "f"(lower));
  }
  return pair;
}

}  // namespace detail
#endif

template <Float8 format>
BERT_HPC_DEVICE std::uint8_t float8_of_float(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  return static_cast<std::uint8_t>(detail::converted_pair<format>(x, 0.0f));
#else
  using F = detail::Float8Fields<format>;
  const std::uint32_t bits = detail::bits_of(x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu, sign = (bits >> 24) & 0x80u;
  const std::uint32_t normal =
      (magnitude - F::rebias + ((1u << (F::shift - 1)) - 1u) + ((magnitude >> F::shift) & 1u)) >> F::shift;
  // The last bit of a float with this exponent has the value of a subnormal's last bit, so the addition rounds
  // correctly.
  constexpr std::uint32_t coarse = (127u + 24u - F::bias - F::fraction_bits) << 23;
  const float shifted = detail::float_of(magnitude < F::smallest_normal ? magnitude : 0u) + detail::float_of(coarse);
  const std::uint32_t subnormal = detail::bits_of(shifted) - coarse;
  const std::uint32_t rounded = magnitude < F::smallest_normal ? subnormal : normal;
  const std::uint32_t finite = rounded < F::largest ? rounded : F::largest;
  return static_cast<std::uint8_t>(magnitude > 0x7F800000u ? F::nan : sign | finite);
#endif
}

/// Two numbers, the first in the lower byte.
template <Float8 format>
BERT_HPC_DEVICE std::uint32_t float8_pair(float lower, float upper) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  return detail::converted_pair<format>(lower, upper);
#else
  return float8_of_float<format>(lower) | std::uint32_t{float8_of_float<format>(upper)} << 8;
#endif
}

template <Float8 format>
BERT_HPC_DEVICE float float_of_float8(std::uint8_t bits) {
  using F = detail::Float8Fields<format>;
  const std::uint32_t pattern = bits & 0x7Fu, sign = (bits & 0x80u) << 24;
  const std::uint32_t magnitude = pattern << F::shift;
  const std::uint32_t normal = magnitude + F::rebias;
  // Adding the exponent of the smallest normal number makes a subnormal too large by exactly that number.
  const float above = detail::float_of(magnitude + F::smallest_normal);
  const std::uint32_t subnormal = detail::bits_of(above - F::smallest);
  const std::uint32_t finite = magnitude < (1u << 23) ? subnormal : normal;
  // E5M2 has infinities, directly below its NaNs.
  const std::uint32_t special = F::wide && pattern == 0x7Cu ? 0x7F800000u : 0x7FC00000u;
  return detail::float_of(sign | (pattern > F::largest ? special : finite));
}

/// The largest finite number.
constexpr float largest_of(Float8 format) {
  return format == Float8::e4m3 ? 448.0f : 57344.0f;
}

/// Range of scale exponents: within it scales, their inverses and scaled-back numbers are normal bf16 numbers.
inline constexpr int least_scale_exponent = -126, max_scale_exponent = 100;

/// The largest power of two that scales `largest` (finite, not negative) to at most the format's largest number; 1 if
/// `largest` is 0, which carries no information.
BERT_HPC_DEVICE float float8_scale(float largest, Float8 format) {
  if (!(largest > 0.0f)) return 1.0f;
  const std::uint32_t bits = detail::bits_of(largest);
  // The largest numbers of both formats are 1.75 times a power of two.
  const int above = (bits & 0x7FFFFFu) > 0x600000u ? 1 : 0;
  int exponent = (format == Float8::e4m3 ? 8 : 15) - (static_cast<int>(bits >> 23) - 127) - above;
  if (exponent < least_scale_exponent) exponent = least_scale_exponent;
  if (exponent > max_scale_exponent) exponent = max_scale_exponent;
  return detail::float_of(static_cast<std::uint32_t>(exponent + 127) << 23);
}

/// Returns x scaled, rounded and scaled back. `inverse` = 1 / `scale`.
template <Float8 format>
BERT_HPC_DEVICE float through_float8(float x, float scale, float inverse) {
  return float_of_float8<format>(float8_of_float<format>(x * scale)) * inverse;
}

}  // namespace bert_hpc::core
