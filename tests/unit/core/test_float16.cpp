// Conversions between float and the 16-bit types, over all of their patterns, against numbers made from the fields of a
// pattern as the formats define them.
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/workspace.hpp"

using namespace bert_hpc::core;

namespace {

struct Format {
  int exponent_bits, fraction_bits;
  float (*widen)(std::uint16_t);
  std::uint16_t (*round)(float);

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint16_t infinity() const { return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits); }
  bool is_nan(std::uint16_t bits) const { return (bits & 0x7FFF) > infinity(); }

  /// The value of a finite pattern.
  double value(std::uint16_t bits) const {
    const int exponent = (bits & 0x7FFF) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
    const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    const double magnitude = std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias() - fraction_bits);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};

const Format formats[] = {{8, 7, float_of_bf16, bf16_of_float}, {5, 10, float_of_fp16, fp16_of_float}};

}  // namespace

TEST_CASE("every pattern of 16 bits converts to its float and back") {
  for (const Format& format : formats) {
    CAPTURE(format.exponent_bits);
    std::int64_t wrong = 0;
    for (std::uint32_t i = 0; i <= 0xFFFF; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const float x = format.widen(bits);
      if (format.is_nan(bits)) {
        wrong += !std::isnan(x) || !format.is_nan(format.round(x)) || std::signbit(x) != (bits >= 0x8000);
        continue;
      }
      if ((bits & 0x7FFF) == format.infinity()) {
        wrong += !std::isinf(x);
      } else {
        wrong += static_cast<double>(x) != format.value(bits);
      }
      wrong += std::signbit(x) != (bits >= 0x8000) || format.round(x) != bits;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("floats round to the nearest 16-bit number, ties to the even one") {
  for (const Format& format : formats) {
    CAPTURE(format.exponent_bits);
    std::int64_t wrong = 0;
    // Between each number and the next: the middle, which every such pair of floats has, and its neighbours. After the
    // largest number, the next one would be out of range: values from that middle on round to infinity.
    for (std::uint16_t bits = 0; bits < format.infinity(); ++bits) {
      const auto next = static_cast<std::uint16_t>(bits + 1);
      const double low = format.value(bits);
      const double high =
          next == format.infinity() ? 2 * low - format.value(static_cast<std::uint16_t>(bits - 1)) : format.value(next);
      const float middle = static_cast<float>((low + high) / 2);
      const float below = std::nextafter(middle, 0.0f), above = std::nextafter(middle, 2 * static_cast<float>(high));
      const std::uint16_t even = bits % 2 == 0 ? bits : next;
      if (static_cast<double>(middle) != (low + high) / 2) ++wrong;  // else the comparisons below would be trivial
      wrong += format.round(middle) != even || format.round(below) != bits || format.round(above) != next;
      wrong += format.round(-middle) != (even | 0x8000) || format.round(-below) != (bits | 0x8000) ||
               format.round(-above) != (next | 0x8000);
    }
    CHECK(wrong == 0);
    const float infinity = std::numeric_limits<float>::infinity();
    CHECK(format.round(infinity) == format.infinity());
    CHECK(format.round(-infinity) == (format.infinity() | 0x8000));
    CHECK(format.round(std::numeric_limits<float>::max()) == format.infinity());
    CHECK(format.is_nan(format.round(std::numeric_limits<float>::quiet_NaN())));
    // NaN whose fraction lies in the bits that are cut off.
    CHECK(format.is_nan(format.round(__builtin_bit_cast(float, 0x7F800001u))));
    CHECK(format.round(std::numeric_limits<float>::denorm_min()) == 0);
    CHECK(format.round(-0.0f) == 0x8000);
  }
}

// GCC vectorizes loops of assignments but not of conversions: different instructions round.
TEMPLATE_TEST_CASE("a float that is assigned is rounded as one that is converted", "", Bf16, Fp16) {
  static_assert(std::is_trivially_copyable_v<TestType>);
  std::vector<float> floats;
  for (std::uint64_t bits = 0; bits < 1ull << 32; bits += 65521) {  // of all exponents and signs, NaN among them
    floats.push_back(__builtin_bit_cast(float, static_cast<std::uint32_t>(bits)));
  }
  std::vector<TestType> assigned(floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) assigned[i] = floats[i];
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < floats.size(); ++i) wrong += assigned[i].bits != TestType(floats[i]).bits;
  CHECK(wrong == 0);
}

TEST_CASE("matrices of 16-bit elements: size, ranges, type") {
  static_assert(sizeof(Bf16) == 2 && sizeof(Fp16) == 2);
  Bf16 elements[12];
  for (int i = 0; i < 12; ++i) elements[i] = static_cast<float>(i);
  const Tensor<Bf16> tensor(elements, 2, 5, 6);
  const Matrix matrix = tensor;
  CHECK(matrix.type == DataType::bf16);
  const ConstMatrix part = matrix.row_range(1, 1).column_range(2, 3);
  CHECK(part.columns == 3);
  CHECK(static_cast<float>(part.as<Bf16>()(0, 0)) == 8.0f);
  CHECK_THROWS(part.as<float>());
  CHECK_THROWS(part.as<Fp16>());
  // In float, rounded once: 256 + 0.5 + … would stay 256 if it were rounded to 8 bits before.
  Bf16 sum = 256.0f;
  sum += 3.0f;  // 259 lies between 258 and 260, whose last bit is even
  CHECK(static_cast<float>(sum) == 260.0f);

  Workspace workspace;
  workspace.take(3, 5, DataType::fp16);
  CHECK(workspace.bytes() == 30);
  workspace.take(1, 5, DataType::fp32);
  CHECK(workspace.bytes() == 64 + 20);
}
