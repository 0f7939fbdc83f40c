// Heads of keys and values that several heads of queries share: repeated, and their gradients added up.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "bert_hpc/ops/repeated_heads.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using core::DataType;

TEST_CASE("each head is repeated, and the gradients of its repetitions are added up") {
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const std::int64_t rows = GENERATE(0, 1, 33), head_dim = GENERATE(1, 12), times = GENERATE(1, 3), heads = 2;
  const std::int64_t columns = heads * head_dim;
  const test::StoredMatrix x = test::StoredMatrix::random(type, rows, columns, 1, 2.0f, 3);
  const test::StoredMatrix d_y = test::StoredMatrix::random(type, rows, times * columns, 2, 1.0f, 5);
  test::StoredMatrix y(type, rows, times * columns, 1), d_x(type, rows, columns, 3);
  ops::repeat_heads(x, head_dim, times, y);
  ops::sum_repeated_heads(d_y, head_dim, times, d_x);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t t = 0; t < times; ++t) {
        const std::int64_t wide = (j / head_dim * times + t) * head_dim + j % head_dim;
        wrong += y(i, wide) == x(i, j) ? 0 : 1;
        sum += d_y(i, wide);
        size += std::abs(d_y(i, wide));
      }
      // The sum is in float and rounded once to the type; 2⁻²⁴: half of the step of numbers below fp16's normal ones.
      wrong +=
          std::abs(d_x(i, j) - sum) <= core::unit_roundoff(type) * std::abs(sum) + 0x1p-22 * size + 0x1p-24 ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
  CHECK(y.padding_untouched());
  CHECK(d_x.padding_untouched());
}
