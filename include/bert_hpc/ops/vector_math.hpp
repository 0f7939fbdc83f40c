// exp, erf, tanh, and GELU with its derivative as straight-line polynomials, so that loops over them become vector code
// without -ffast-math (GCC: -O3 -fno-trapping-math, which the ops module has), and one source serves every device.
// Coefficients are minimax fits (Lawson's reweighted least squares, in double) made for this file; the errors stated
// were measured against double over the whole range.
//
// GELU uses Φ(−a) = exp(−a²/2)·P(a)/Q(a), the scaled form of the complementary error function: the tail keeps its
// relative accuracy where 1 + erf would cancel, and the derivative x·φ(x) + Φ(x) shares the exponential.
#pragma once

#include <cstdint>

#include "bert_hpc/core/device.hpp"

namespace bert_hpc::ops {

/// a·b + c, rounded once wherever the processor can: written out so that scalar tails and vector bodies agree.
BERT_HPC_DEVICE float multiply_add(float a, float b, float c) {
#if defined(FP_FAST_FMAF) || defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__CUDACC__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/// exp(x), relative error below 1.5e-7; exactly 1 at 0, exactly 0 below −87.3, held at exp(88) above 88. NaN gives NaN.
BERT_HPC_DEVICE float fast_exp(float x) {
  constexpr float shift = 12582912.0f;  // 1.5·2^23: adding it leaves the nearest integer in the lowest bits
  const float low = -87.3f, high = 88.0f;
  float t = x < low ? low : x;
  t = t > high ? high : t;
  const float shifted = multiply_add(t, 1.44269504f, shift);
  const float n = shifted - shift;
  // r = t − n·ln 2 in [−ln 2 / 2, ln 2 / 2]; ln 2 in two parts.
  const float r = multiply_add(n, -1.42860677e-6f, multiply_add(n, -0.693145752f, t));
  float p = 0.00138131436f;
  p = multiply_add(p, r, 0.00836941879f);
  p = multiply_add(p, r, 0.041668456f);
  p = multiply_add(p, r, 0.166665152f);
  p = multiply_add(p, r, 0.5f);
  p = multiply_add(p, r, 1.0f);
  p = multiply_add(p, r, 1.0f);
  const std::uint32_t exponent = (__builtin_bit_cast(std::uint32_t, shifted) << 23) + 0x3F800000u;
  const float result = p * __builtin_bit_cast(float, exponent);
  return x < low ? 0.0f : result;
}

namespace detail {

/// P(a)/Q(a) ≈ Φ(−a)·exp(a²/2) for a ≥ 0, relative error below 2e-7; a up to 1e9.
BERT_HPC_DEVICE float scaled_normal_tail(float a) {
  const float p = multiply_add(multiply_add(multiply_add(0.0132651413f, a, 0.102776878f), a, 0.331331223f), a, 0.5f);
  const float q = multiply_add(
      multiply_add(multiply_add(multiply_add(0.0332744643f, a, 0.25701198f), a, 0.870927095f), a, 1.46054423f), a,
      1.0f);
  return p / q;
}

/// |x|, held at 1e9 so that the powers above stay finite; NaN stays NaN.
BERT_HPC_DEVICE float bounded_magnitude(float x) {
  const float a = __builtin_fabsf(x);
  return a > 1e9f ? 1e9f : a;
}

/// exp(−x²/2).
BERT_HPC_DEVICE float gaussian(float a) {
  return fast_exp(-0.5f * (a * a));
}

}  // namespace detail

/// Φ(x), the normal distribution function: absolute error below 1.8e-7.
BERT_HPC_DEVICE float normal_distribution(float x) {
  const float a = detail::bounded_magnitude(x);
  const float tail = detail::gaussian(a) * detail::scaled_normal_tail(a);
  return x < 0.0f ? tail : 1.0f - tail;
}

/// GELU x·Φ(x): absolute error below 2e-7·|x|.
BERT_HPC_DEVICE float gelu(float x) {
  return x * normal_distribution(x);
}

/// gelu'(x) = Φ(x) + x·φ(x): absolute error below 3e-7.
BERT_HPC_DEVICE float gelu_derivative(float x) {
  const float a = detail::bounded_magnitude(x);
  const float g = detail::gaussian(a);
  const float tail = g * detail::scaled_normal_tail(a);
  const float bounded = x < 0.0f ? -a : a;
  return multiply_add(bounded * 0.398942280f, g, x < 0.0f ? tail : 1.0f - tail);
}

/// erf(x): absolute error below 2e-7, relative error below 3e-7.
BERT_HPC_DEVICE float fast_erf(float x) {
  // Near 0 its own series in x², elsewhere 1 − 2·Φ(−√2·|x|).
  const float s = x * x;
  float series = 0.00415890012f;
  series = multiply_add(series, s, -0.026360346f);
  series = multiply_add(series, s, 0.112737395f);
  series = multiply_add(series, s, -0.376119316f);
  series = multiply_add(series, s, 1.12837911f);
  const float magnitude = detail::bounded_magnitude(x);
  const float a = 1.41421356f * magnitude;
  const float outer = 1.0f - 2.0f * (fast_exp(-(magnitude * magnitude)) * detail::scaled_normal_tail(a));
  return magnitude < 0.75f ? x * series : (x < 0.0f ? -outer : outer);
}

/// tanh(x): absolute error below 2e-7, relative error below 3e-7.
BERT_HPC_DEVICE float fast_tanh(float x) {
  const float s = x * x;
  float series = -0.0062357001f;
  series = multiply_add(series, s, 0.0210397933f);
  series = multiply_add(series, s, -0.053842742f);
  series = multiply_add(series, s, 0.133324608f);
  series = multiply_add(series, s, -0.333333105f);
  series = multiply_add(series, s, 1.0f);
  const float magnitude = detail::bounded_magnitude(x);
  const float outer = 1.0f - 2.0f / (fast_exp(2.0f * magnitude) + 1.0f);
  return magnitude < 0.55f ? x * series : (x < 0.0f ? -outer : outer);
}

}  // namespace bert_hpc::ops
