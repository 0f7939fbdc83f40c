// The 8-bit formats over all of their patterns, against numbers made from the fields of a pattern as Micikevicius et
// al. define them; scales against the definition.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "bert_hpc/core/float16.hpp"
#include "bert_hpc/core/float8.hpp"

using namespace bert_hpc::core;

namespace {

struct Format {
  Float8 which;
  int exponent_bits, fraction_bits, largest, first_nan;
  float (*widen)(std::uint8_t);
  std::uint8_t (*round)(float);

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  /// The value of a pattern without a sign, also of patterns that are not numbers.
  double value(int pattern) const {
    const int exponent = pattern >> fraction_bits, fraction = pattern & ((1 << fraction_bits) - 1);
    const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    return std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias() - fraction_bits);
  }
};

const Format formats[] = {
    {Float8::e4m3, 4, 3, 0x7E, 0x7F, float_of_float8<Float8::e4m3>, float8_of_float<Float8::e4m3>},
    {Float8::e5m2, 5, 2, 0x7B, 0x7D, float_of_float8<Float8::e5m2>, float8_of_float<Float8::e5m2>}};

}  // namespace

TEST_CASE("every pattern of 8 bits converts to its float and back") {
  for (const Format& format : formats) {
    CAPTURE(format.exponent_bits);
    CHECK(format.value(format.largest) == static_cast<double>(largest_of(format.which)));
    for (int sign = 0; sign < 2; ++sign) {
      for (int pattern = 0; pattern < 0x80; ++pattern) {
        CAPTURE(pattern, sign);
        const auto bits = static_cast<std::uint8_t>(sign * 0x80 + pattern);
        const float x = format.widen(bits);
        CHECK(std::signbit(x) == (sign == 1));
        if (pattern >= format.first_nan) {
          CHECK(std::isnan(x));
          CHECK(format.round(x) == 0x7F);
        } else if (pattern > format.largest) {
          CHECK(std::isinf(x));
          CHECK(format.round(x) == sign * 0x80 + format.largest);  // saturates
        } else {
          CHECK(std::abs(static_cast<double>(x)) == format.value(pattern));
          CHECK(format.round(x) == bits);
        }
      }
    }
  }
}

TEST_CASE("floats round to the nearest 8-bit number, ties to the even one, and saturate") {
  for (const Format& format : formats) {
    CAPTURE(format.exponent_bits);
    for (int pattern = 0; pattern <= format.largest; ++pattern) {
      CAPTURE(pattern);
      const int next = pattern == format.largest ? pattern : pattern + 1;
      const auto middle = static_cast<float>((format.value(pattern) + format.value(pattern + 1)) / 2);
      const float below = std::nextafter(middle, 0.0f), above = std::nextafter(middle, 1e9f);
      const int even = pattern % 2 == 0 ? pattern : next;
      CHECK(format.round(middle) == even);
      CHECK(format.round(below) == pattern);
      CHECK(format.round(above) == next);
      CHECK(format.round(-middle) == even + 0x80);
      CHECK(format.round(-below) == pattern + 0x80);
      CHECK(format.round(-above) == next + 0x80);
    }
    CHECK(format.round(std::numeric_limits<float>::max()) == format.largest);
    CHECK(format.round(-std::numeric_limits<float>::infinity()) == format.largest + 0x80);
    CHECK(format.round(std::numeric_limits<float>::denorm_min()) == 0);
  }
}

TEST_CASE("a scale is the largest power of two that keeps the largest number in the format's range") {
  for (const Format& format : formats) {
    const double most = largest_of(format.which);
    for (const float largest : {1.0f, 1.75f, std::nextafter(1.75f, 2.0f), 1.999f, 3e-5f, 448.0f, 449.0f, 57344.0f, 6e4f,
                                1e-12f, 1e20f, std::numeric_limits<float>::max()}) {
      CAPTURE(format.exponent_bits, largest);
      const double scale = float8_scale(largest, format.which);
      int exponent = 0;
      CHECK(std::frexp(scale, &exponent) == 0.5);
      CHECK(scale * largest <= most);
      CHECK(2 * scale * largest > most);
    }
    CHECK(float8_scale(0.0f, format.which) == 1.0f);
    // So small that the limit is what counts: what is scaled back must be a number of bf16.
    CHECK(float8_scale(std::numeric_limits<float>::denorm_min(), format.which) == std::ldexp(1.0f, 100));
  }
}

TEST_CASE("an 8-bit number scaled back is a bf16 number for any scale") {
  for (const Format& format : formats) {
    for (int exponent = least_scale_exponent; exponent <= max_scale_exponent; ++exponent) {
      const float inverse = std::ldexp(1.0f, -exponent);
      std::int64_t wrong = 0;
      for (int pattern = 0; pattern <= format.largest; ++pattern) {
        const double exact = std::ldexp(format.value(pattern), -exponent);
        if (exact > static_cast<double>(std::numeric_limits<float>::max())) continue;  // no scale of anything finite
        const float back = format.widen(static_cast<std::uint8_t>(pattern)) * inverse;
        wrong += static_cast<double>(back) != exact || float_of_bf16(bf16_of_float(back)) != back;
      }
      CAPTURE(exponent);
      CHECK(wrong == 0);
    }
  }
}
