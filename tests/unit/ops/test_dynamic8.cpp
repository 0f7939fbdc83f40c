// Codes of 8 bits: their values beside those of bitsandbytes, and the nearest code of a number.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <fstream>

#include "bert_hpc/ops/dynamic8.hpp"
#include "support/tests_directory.hpp"

namespace dynamic8 = bert_hpc::ops::dynamic8;

namespace {

using dynamic8::encode;
using dynamic8::values;

/// By trying all.
int nearest(const std::array<float, 256>& all, double y) {
  const auto difference = [y](float value) { return std::abs(static_cast<double>(value) - y); };
  const auto found =
      std::min_element(all.begin(), all.end(), [&](float a, float b) { return difference(a) < difference(b); });
  return static_cast<int>(found - all.begin());
}

}  // namespace

TEST_CASE("codes have the values of bitsandbytes' map") {
  std::ifstream golden(bert_hpc::test::tests_directory() / "golden/optimizer/dynamic8.txt");
  for (const bool with_sign : {true, false}) {
    for (const float value : values(with_sign)) {
      double expected = 0;
      REQUIRE(golden >> expected);
      // The map is computed there in single precision, in four operations with a rounding of 6e-8 each.
      CHECK(std::abs(static_cast<double>(value) - expected) <= 2.4e-7 * std::abs(expected));
    }
  }
}

TEST_CASE("the code of a code's value is that code, whatever the scale") {
  for (const bool with_sign : {true, false}) {
    for (const float scale : {1.0f, 0.37f, 8.1e-9f, 3e20f}) {
      for (int code = 0; code < 256; ++code) {
        const float value = values(with_sign)[static_cast<std::size_t>(code)] * scale;
        CHECK(encode(with_sign, value * dynamic8::inverse_scale(scale)) == code);
      }
    }
  }
}

TEST_CASE("a number gets the nearest code") {
  for (const bool with_sign : {true, false}) {
    const std::array<float, 256>& all = values(with_sign);
    for (double magnitude = 1e-8; magnitude <= 1; magnitude *= 1.0007) {
      for (const double sign : {1.0, -1.0}) {
        if (!with_sign && sign < 0) continue;
        const auto y = static_cast<float>(sign * magnitude);
        const int best = nearest(all, static_cast<double>(y)), found = encode(with_sign, y);
        const auto difference = [&](int code) {
          return std::abs(static_cast<double>(all[static_cast<std::size_t>(code)]) - static_cast<double>(y));
        };
        if (!with_sign && best == 0) {
          CHECK(found == 1);  // only zero becomes zero
        } else {
          // Half way between two codes the other one is as good, up to rounding.
          CHECK(difference(found) <= difference(best) + 1e-6 * magnitude);
        }
      }
    }
  }
  CHECK(values(false)[encode(false, 0.0f)] == 0.0f);
  CHECK(values(true)[encode(true, 0.0f)] == 0.0f);
  CHECK(values(true)[encode(true, 1.0f)] == 1.0f);
  CHECK(encode(true, -1.0f) == 0);  // the least value is not -1
  CHECK(dynamic8::inverse_scale(0.0f) == 0.0f);
  CHECK(dynamic8::inverse_scale(1e-40f) == 0.0f);
}
