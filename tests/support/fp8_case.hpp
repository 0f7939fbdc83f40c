// Shared by tests of FP8: the nearest 8-bit number, by exhaustive search; a scale in kernel memory; magnitudes for amax
// histories.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "bert_hpc/ops/fp8_rounding.hpp"
#include "support/stored_matrix.hpp"

namespace bert_hpc::test {

using bert_hpc::core::Float8;

/// The non-negative numbers of a format, ascending: bit patterns are in the order of their values.
inline std::vector<double> numbers_of(Float8 format) {
  const int fraction_bits = format == Float8::e4m3 ? 3 : 2, bias = format == Float8::e4m3 ? 7 : 15;
  std::vector<double> numbers;
  for (int pattern = 0; pattern < 0x80; ++pattern) {
    const int exponent = pattern >> fraction_bits, fraction = pattern & ((1 << fraction_bits) - 1);
    const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    const double value = std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
    if (value <= static_cast<double>(bert_hpc::core::largest_of(format))) numbers.push_back(value);
  }
  return numbers;
}

inline double nearest(double x, Float8 format) {
  static const std::vector<double> all[] = {numbers_of(Float8::e4m3), numbers_of(Float8::e5m2)};
  const std::vector<double>& numbers = all[format == Float8::e4m3 ? 0 : 1];
  std::size_t best = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    const double d = std::abs(numbers[i] - std::abs(x)), least = std::abs(numbers[best] - std::abs(x));
    if (d < least || (d == least && i % 2 == 0)) best = i;  // a tie: the even pattern
  }
  return std::copysign(numbers[best], x);
}

/// A scale in kernel memory.
struct OneScale {
  explicit OneScale(Float8 f, float scale) : format(f), numbers{scale, 1.0f / scale, 0.0f} {}
  bert_hpc::ops::Fp8Scale view() {
    return {format, numbers.data(), numbers.data() + 1, reinterpret_cast<std::uint32_t*>(numbers.data() + 2)};
  }
  Float8 format;
  Vector<float> numbers;
};

inline void note(const bert_hpc::ops::Fp8Scales& scales, std::size_t layer, bert_hpc::ops::Fp8Operand operand,
                 float magnitude) {
  StoredMatrix x(DataType::fp32, 1, 2);
  x.set(0, 0, -magnitude);
  x.set(0, 1, 0.0f);
  bert_hpc::ops::note_magnitude(x, scales.of(layer, operand));
}

}  // namespace bert_hpc::test
