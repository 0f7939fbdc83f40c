// exp, ln, sine and cosine, erf, tanh, and GELU with its derivative as straight-line polynomials. Loops over them
// vectorize without -ffast-math (the ops module uses GCC's -O3 -fno-trapping-math), and one source serves every device.
// The coefficients are minimax fits (Lawson's reweighted least squares, in double) made for this file; the stated
// errors were measured against double over the whole range.
//
// GELU in float uses Φ(−a) = exp(−a²/2)·P(a)/Q(a), the scaled form of the complementary error function: the tail keeps
// its relative accuracy where 1 + erf would cancel, and the derivative x·φ(x) + Φ(x) shares the exponential.
#pragma once

#include <cstdint>

#include "bert_hpc/core/device.hpp"

namespace bert_hpc::ops {

/// a·b + c, rounded once on processors with FMA. Written explicitly so that scalar tails and vector bodies agree.
BERT_HPC_DEVICE float multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return ::fmaf(a, b, c);
#elif defined(FP_FAST_FMAF) || defined(__FP_FAST_FMAF) || defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

namespace detail {

BERT_HPC_DEVICE float magnitude(float x) {
#if defined(__CUDA_ARCH__)
  return ::fabsf(x);
#else
  return __builtin_fabsf(x);
#endif
}

BERT_HPC_DEVICE float with_sign(float x, float sign) {
#if defined(__CUDA_ARCH__)
  return ::copysignf(x, sign);
#else
  return __builtin_copysignf(x, sign);
#endif
}

/// exp(t) for t in [−88.03, ∞): the nearest power of two, limited to 2^127, times a polynomial in the remainder.
BERT_HPC_DEVICE float bounded_exp(float t) {
  constexpr float shift = 12582912.0f;  // 1.5·2^23: adding it leaves the nearest integer in the lowest bits
  constexpr std::int32_t largest = 0x4B400000 + 127;
  const std::int32_t bits = __builtin_bit_cast(std::int32_t, multiply_add(t, 1.44269504f, shift));
  const std::int32_t limited = bits < largest ? bits : largest;
  const float n = __builtin_bit_cast(float, limited) - shift;
  // r = t − n·ln 2, in [−ln 2 / 2, ln 2 / 2] unless n was limited; ln 2 in two parts.
  const float r = multiply_add(n, -1.42860677e-6f, multiply_add(n, -0.693145752f, t));
  // 1 + r + r²·(c2 + c3·r + r²·(c4 + c5·r + c6·r²)), in an order that shortens the chain of dependent steps.
  const float r2 = r * r;
  const float high = multiply_add(r2, 0.00138131436f, multiply_add(r, 0.00836941879f, 0.041668456f));
  const float p = multiply_add(multiply_add(high, r2, multiply_add(r, 0.166665152f, 0.5f)), r2, r + 1.0f);
  // 2^n; for n = −127 its exponent bits, and thus the product, are zero.
  const std::uint32_t exponent = (static_cast<std::uint32_t>(limited) << 23) + 0x3F800000u;
  return p * __builtin_bit_cast(float, exponent);
}

/// P(a)/Q(a) ≈ Φ(−a)·exp(a²/2) for 0 ≤ a < 1e9, relative error below 2e-7.
BERT_HPC_DEVICE float scaled_normal_tail(float a) {
  const float p = multiply_add(multiply_add(multiply_add(0.0132651413f, a, 0.102776878f), a, 0.331331223f), a, 0.5f);
  const float q = multiply_add(
      multiply_add(multiply_add(multiply_add(0.0332744643f, a, 0.25701198f), a, 0.870927095f), a, 1.46054423f), a,
      1.0f);
  return p / q;
}

/// x|, limited to a value at which bounded_exp(−a²/2) is exactly zero.
BERT_HPC_DEVICE float bounded_magnitude(float x) {
  const float a = detail::magnitude(x);
  return a < 13.265f ? a : 13.265f;
}

}  // namespace detail

/// exp(x), relative error below 1.5e-7 for x ≤ 88.3; exactly 1 at 0, exactly 0 below −87.7, infinite above 89. NaN
/// gives NaN.
BERT_HPC_DEVICE float fast_exp(float x) {
  const float low = -88.0296f;
  return detail::bounded_exp(x < low ? low : x);
}

/// GELU x·Φ(x) = max(x, 0) − |x|·Φ(−|x|): absolute error below 2e-7·|x|, relative error below 1.7e-6 for |x| ≤ 6.
BERT_HPC_DEVICE float gelu(float x) {
  const float a = detail::bounded_magnitude(x);
  const float tail = detail::bounded_exp(-0.5f * (a * a)) * detail::scaled_normal_tail(a);
  const float positive = x > 0.0f ? x : 0.0f;
  return multiply_add(-detail::magnitude(x), tail, positive);
}

/// gelu'(x) = Φ(x) + x·φ(x): absolute error below 3e-7.
BERT_HPC_DEVICE float gelu_derivative(float x) {
  const float a = detail::bounded_magnitude(x);
  const float gaussian = detail::bounded_exp(-0.5f * (a * a));
  const float tail = gaussian * detail::scaled_normal_tail(a);
  return multiply_add(x * 0.398942280f, gaussian, x < 0.0f ? tail : 1.0f - tail);
}

namespace detail {

/// Σ coefficients · x^k, the highest power first, by Horner's rule.
BERT_HPC_DEVICE float polynomial(float, float lowest) {
  return lowest;
}
template <class... Lower>
BERT_HPC_DEVICE float polynomial(float x, float high, float next, Lower... lower) {
  return polynomial(x, multiply_add(high, x, next), lower...);
}

/// 2^t for t in [−127.5, 127.5), relative error below 2^-13.7; exactly 0 below −126.5. A GPU's instruction has
/// errors below 2^-22 and gives 0 below −126 (PTX ISA, ex2.approx.ftz).
BERT_HPC_DEVICE float rough_power_of_two(float t) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(t));
  return power;
#else
  constexpr float shift = 12582912.0f;  // 1.5·2^23: see bounded_exp
  const float shifted = t + shift;
  const float r = t - (shifted - shift);
  const float p = polynomial(r, 0.05517166f, 0.24261113f, 0.69326097f, 0.99992806f);
  const std::uint32_t exponent = (__builtin_bit_cast(std::uint32_t, shifted) << 23) + 0x3F800000u;
  return p * __builtin_bit_cast(float, exponent);
#endif
}

}  // namespace detail

// GELU for results that are stored in 16 bits: Φ(−a) and gelu'(−a)/(zero − a) are powers of two whose exponents are
// smooth on the whole range, so that a polynomial and an exponential of lower degree do, without a division. A result
// is rounded by half a unit in its last place, which is at least 2^-9 of a bf16 and 2^-12 of a normal fp16; the errors
// below are smaller. (Coefficients: tests/support/fit_gelu.py. Errors: of all bf16 and fp16 x, tests/unit/ops.)

/// GELU, relative error below 2^-12.9 for x ≥ −4.3 (below which an fp16 result is subnormal), 2^-12.4 for x ≥ −6 and
/// 2^-11 for x ≥ −12.9; farther out an absolute error below 2^-122.
BERT_HPC_DEVICE float gelu_in_16_bits(float x) {
  const float magnitude = detail::magnitude(x);
  const float a = magnitude < 13.0f ? magnitude : 13.0f;  // where Φ(−a) becomes exactly 0
  const float tail = detail::rough_power_of_two(detail::polynomial(a, 3.7756227e-08f, -2.251863e-06f, 5.783885e-05f,
                                                                   -0.0008480571f, 0.007996322f, -0.052512947f,
                                                                   -0.46033385f, -1.1503536f, -1.0000685f));
  const float positive = x > 0.0f ? x : 0.0f;
  return multiply_add(-magnitude, tail, positive);
}

/// gelu'(x), relative error below 2^-12.7 for x ≥ −6.3 and 2^-10.7 for x ≥ −13; farther out an absolute error below
/// 2^-122.
BERT_HPC_DEVICE float gelu_derivative_in_16_bits(float x) {
  const float magnitude = detail::magnitude(x);
  const float a = magnitude < 13.2f ? magnitude : 13.2f;
  const float power = detail::rough_power_of_two(
      detail::polynomial(a, -7.0631687e-09f, 4.4377975e-07f, -1.1956112e-05f, 0.00018177772f, -0.0017342437f,
                         0.010997999f, -0.048450578f, -0.56594175f, -0.381533f, -0.58849007f));
  const float factor = 0.75179154f - magnitude;  // gelu' has a zero; no 16-bit x is nearer to it than 1.6e-4
  return x < 0.0f ? factor * power : multiply_add(-factor, power, 1.0f);
}

/// GELU of a number stored as T, for a result stored as T.
template <class T>
BERT_HPC_DEVICE float gelu_of(float x) {
  if constexpr (sizeof(T) == 2) return gelu_in_16_bits(x);
  return gelu(x);
}
template <class T>
BERT_HPC_DEVICE float gelu_derivative_of(float x) {
  if constexpr (sizeof(T) == 2) return gelu_derivative_in_16_bits(x);
  return gelu_derivative(x);
}

/// σ(x): relative error below 3e-7 for x ≥ −87; 0 or subnormal below.
BERT_HPC_DEVICE float fast_sigmoid(float x) {
  return 1.0f / (1.0f + fast_exp(-x));
}

/// SiLU x·σ(x) (Elfwing et al. 2018), relative error below 4e-7 for x ≥ −87, and its derivative
/// σ(x)·(1 + x·(1 − σ(x))), absolute error below 1.2e-6.
BERT_HPC_DEVICE float silu(float x) {
  return x * fast_sigmoid(x);
}
BERT_HPC_DEVICE float silu_derivative(float x) {
  const float share = fast_sigmoid(x);
  return share * multiply_add(x, 1.0f - share, 1.0f);
}

/// erf(x): absolute error below 2e-7, relative error below 3e-7.
BERT_HPC_DEVICE float fast_erf(float x) {
  // Near 0 the series in x², elsewhere 1 − 2·Φ(−√2·|x|).
  const float s = x * x;
  float series = 0.00415890012f;
  series = multiply_add(series, s, -0.026360346f);
  series = multiply_add(series, s, 0.112737395f);
  series = multiply_add(series, s, -0.376119316f);
  series = multiply_add(series, s, 1.12837911f);
  const float a = detail::bounded_magnitude(1.41421356f * x);
  const float outer = 1.0f - 2.0f * (detail::bounded_exp(-0.5f * (a * a)) * detail::scaled_normal_tail(a));
  return detail::magnitude(x) >= 0.75f ? detail::with_sign(outer, x) : x * series;
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
  const float outer = 1.0f - 2.0f / (detail::bounded_exp(2.0f * detail::bounded_magnitude(x)) + 1.0f);
  return detail::magnitude(x) >= 0.55f ? detail::with_sign(outer, x) : x * series;
}

/// sin and cos of an angle of at most 2^20: absolute errors below 1.2e-7. The angle is reduced in double, so that large
/// angles lose nothing.
BERT_HPC_DEVICE void sine_cosine(float angle, float& sine, float& cosine) {
  constexpr double shift = 6755399441055744.0;  // 1.5·2^52: see bounded_exp
  const double shifted = static_cast<double>(angle) * 0.63661977236758134 + shift;
  const float r = static_cast<float>(static_cast<double>(angle) - (shifted - shift) * 1.5707963267948966);
  const std::int64_t quadrant = __builtin_bit_cast(std::int64_t, shifted);
  const float s = r * r;
  const float odd = multiply_add(r * s, detail::polynomial(s, -1.9515296e-4f, 8.3321609e-3f, -1.6666655e-1f), r);
  const float even =
      multiply_add(s * s, detail::polynomial(s, 2.4433157e-5f, -1.3887316e-3f, 4.1666646e-2f), 1.0f - 0.5f * s);
  const float first = (quadrant & 1) != 0 ? even : odd, second = (quadrant & 1) != 0 ? odd : even;
  sine = (quadrant & 2) != 0 ? -first : first;
  cosine = ((quadrant + 1) & 2) != 0 ? -second : second;
}

/// ln(x) for normal x > 0: relative error below 2.5e-7, also near 1.
BERT_HPC_DEVICE float fast_log(float x) {
  // x = 2^n·(1 + f) with 1 + f in [√½, √2); ln(1 + f) = f − f²/2 + f³·P(f).
  const std::int32_t bits = __builtin_bit_cast(std::int32_t, x);
  const std::int32_t exponent = (bits - 0x3F3504F3) >> 23;
  const float f = __builtin_bit_cast(float, bits - exponent * (1 << 23)) - 1.0f;
  float p = -0.0763449371f;
  p = multiply_add(p, f, 0.127615765f);
  p = multiply_add(p, f, -0.13160184f);
  p = multiply_add(p, f, 0.142017588f);
  p = multiply_add(p, f, -0.166233569f);
  p = multiply_add(p, f, 0.200012267f);
  p = multiply_add(p, f, -0.250008196f);
  p = multiply_add(p, f, 0.333333313f);
  const float n = static_cast<float>(exponent), f2 = f * f;
  const float small = multiply_add(n, 1.42860677e-6f, multiply_add(f * f2, p, -0.5f * f2));  // ln 2 in two parts
  return multiply_add(n, 0.693145752f, f + small);
}

struct SineCosine {
  float sine, cosine;
};

/// sin(2π·v) and cos(2π·v) for |v| < 2^20: absolute errors below 2e-7.
BERT_HPC_DEVICE SineCosine sine_cosine_of_turns(float v) {
  constexpr float shift = 12582912.0f;  // 1.5·2^23: see bounded_exp
  const float quarters = 4.0f * v;
  const std::int32_t nearest = __builtin_bit_cast(std::int32_t, quarters + shift);
  const float r = quarters - (__builtin_bit_cast(float, nearest) - shift);  // in [−½, ½], of π/2
  const float s = r * r;
  float sine = -0.00460166065f;
  sine = multiply_add(sine, s, 0.0796800256f);
  sine = multiply_add(sine, s, -0.645963490f);
  sine = multiply_add(sine, s, 1.57079637f) * r;
  float cosine = 0.000903363398f;
  cosine = multiply_add(cosine, s, -0.0208599362f);
  cosine = multiply_add(cosine, s, 0.253669173f);
  cosine = multiply_add(cosine, s, -1.23370051f);
  cosine = multiply_add(cosine, s, 1.0f);
  const bool odd = (nearest & 1) != 0;
  const float a = odd ? cosine : sine, b = odd ? sine : cosine;
  return {(nearest & 2) != 0 ? -a : a, ((nearest + 1) & 2) != 0 ? -b : b};
}

}  // namespace bert_hpc::ops
