// Look-ups in tables of each stored type against the numbers that they stand for.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>

#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/ops/stored_rows.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

constexpr std::int64_t rows = 7;
const test::Vector<std::int32_t> ids{6, 0, 3, 3, 5};

/// Whether rows of S are looked up as the floats that they stand for, times their scales.
template <class S>
bool finds_rows(ops::StoredType type, std::int64_t columns, bool scaled) {
  test::Vector<S> values;
  test::Vector<float> scales;
  for (std::int64_t i = 0; i < rows * columns; ++i) values.push_back(S(static_cast<float>(i % 251 - 125)));
  for (std::int64_t r = 0; r < rows; ++r) scales.push_back(0.37f * static_cast<float>(r + 1));
  const ops::StoredRows table{type, values.data(), scaled ? scales.data() : nullptr, rows, columns};
  Matrix y(static_cast<std::int64_t>(ids.size()), columns, 3);
  ops::stored_rows_forward(ids.data(), table, y);
  bool equal = y.padding_untouched();
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const auto row = static_cast<std::size_t>(ids[t]);
    for (std::int64_t j = 0; j < columns; ++j) {
      const S stored = values[row * static_cast<std::size_t>(columns) + static_cast<std::size_t>(j)];
      const float expected = static_cast<float>(stored) * (scaled ? scales[row] : 1.0f);
      equal = equal && y(static_cast<std::int64_t>(t), j) == expected;
    }
  }
  return equal;
}

}  // namespace

TEST_CASE("Look-ups widen stored rows and apply their scales") {
  for (const std::int64_t columns : {1, 10, 64, 130}) {
    CHECK(finds_rows<float>(ops::StoredType::fp32, columns, false));
    CHECK(finds_rows<core::Fp16>(ops::StoredType::fp16, columns, false));
    CHECK(finds_rows<core::Bf16>(ops::StoredType::bf16, columns, false));
    CHECK(finds_rows<std::int8_t>(ops::StoredType::int8, columns, true));
  }
}
