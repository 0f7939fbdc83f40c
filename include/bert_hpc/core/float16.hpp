// The two 16-bit floating-point formats as bit patterns: bfloat16 (8 exponent bits, 7 fraction bits: float's range) and
// IEEE 754 half precision (5 and 10). Conversions from float round to nearest, ties to even; conversions to float are
// exact. The code is straight-line and uses no tables, so compilers vectorize loops over it; on GPUs each conversion is
// one instruction.
#pragma once

#include <cstdint>

#include "bert_hpc/core/device.hpp"

namespace bert_hpc::core {

BERT_HPC_DEVICE float float_of_bf16(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

/// Values that would round beyond the largest number become infinite; NaN stays NaN.
BERT_HPC_DEVICE std::uint16_t bf16_of_float(float x) {
#if defined(__CUDA_ARCH__)
  std::uint16_t result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(x));
  return result;
#else
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
#endif
}

BERT_HPC_DEVICE float float_of_fp16(std::uint16_t bits) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
  return result;
#else
  constexpr std::uint32_t rebias = 112u << 23, exponent = 0x7C00u << 13, smallest_normal = 113u << 23;
  const std::uint32_t magnitude = (bits & 0x7FFFu) << 13, sign = (bits & 0x8000u) << 16;
  const std::uint32_t normal = magnitude + rebias;
  const std::uint32_t not_finite = magnitude + 2u * rebias;
  // Adding the exponent of the smallest normal number makes a subnormal too large by exactly that number.
  const float above = __builtin_bit_cast(float, magnitude + smallest_normal);
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, above - 6.103515625e-5f);
  const std::uint32_t finite = magnitude < (0x0400u << 13) ? subnormal : normal;
  return __builtin_bit_cast(float, sign | (magnitude >= exponent ? not_finite : finite));
#endif
}

/// Values that would round beyond the largest number, 65504, become infinite; NaN stays NaN.
BERT_HPC_DEVICE std::uint16_t fp16_of_float(float x) {
#if defined(__CUDA_ARCH__)
  std::uint16_t result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(x));
  return result;
#else
  constexpr std::uint32_t rebias = 112u << 23, smallest_normal = 113u << 23, overflow = 0x477FF000u, half = 0x3F000000u;
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu, sign = (bits >> 16) & 0x8000u;
  const std::uint32_t normal = (magnitude - rebias + 0x0FFFu + ((magnitude >> 13) & 1u)) >> 13;
  // The last bit of a float in [½, 1) has the value of a subnormal's last bit, so the addition rounds correctly.
  const float shifted = __builtin_bit_cast(float, magnitude < smallest_normal ? magnitude : 0u) + 0.5f;
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, shifted) - half;
  const std::uint32_t finite = magnitude < smallest_normal ? subnormal : normal;
  const std::uint32_t nan = 0x7E00u | ((magnitude >> 13) & 0x03FFu);
  const std::uint32_t not_finite = magnitude > 0x7F800000u ? nan : 0x7C00u;
  return static_cast<std::uint16_t>(sign | (magnitude >= overflow ? not_finite : finite));
#endif
}

}  // namespace bert_hpc::core
