#include "bert_hpc/ops/dynamic8.hpp"

#include <algorithm>
#include <cmath>

namespace bert_hpc::ops::dynamic8 {
namespace {

constexpr int decades = 7;

std::array<float, 256> values_of(bool with_sign) {
  std::array<float, 256> values{};
  values[0] = 0.0f;
  values[1] = 1.0f;
  std::size_t count = 2;
  for (int decade = 0; decade < decades; ++decade) {
    const int parts = with_sign ? 1 << decade : 2 << decade;
    for (int j = 0; j < parts; ++j) {
      const double centre = 0.1 + (j + 0.5) * 0.9 / parts;
      const auto value = static_cast<float>(centre * std::pow(10.0, decade - (decades - 1)));
      values[count++] = value;
      if (with_sign) values[count++] = -value;
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

const std::array<float, 256>& values(bool with_sign) {
  static const std::array<float, 256> of_signed = values_of(true), of_unsigned = values_of(false);
  return with_sign ? of_signed : of_unsigned;
}

}  // namespace bert_hpc::ops::dynamic8
