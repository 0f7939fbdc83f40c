// Pooling against a plain loop in double precision.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "bert_hpc/ops/pooling.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using ops::Pooling;
using test::DataType;
using test::StoredMatrix;

TEST_CASE("Pooled rows are those of a plain loop, without padding") {
  const Pooling pooling = GENERATE(Pooling::first, Pooling::last, Pooling::mean, Pooling::max, Pooling::ends);
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const std::int64_t columns = GENERATE(8, 37, 264);
  const bool padded = GENERATE(false, true);
  CAPTURE(static_cast<int>(pooling), core::name_of(type), columns, padded);
  const test::Vector<std::int32_t> offsets{0, 1, 6, 8, 71}, lengths{1, 3, 2, 60};
  const auto sequences = static_cast<std::int64_t>(lengths.size());
  const StoredMatrix x = StoredMatrix::random(type, offsets.back(), columns, 3, 2.0f, 5);
  test::Matrix y(sequences, columns);
  const core::TokenRows rows{.count = offsets.back(), .offsets = offsets.data()};
  ops::pool_rows(pooling, x, rows, padded ? lengths.data() : nullptr, y.tensor());
  std::int64_t wrong = 0;
  for (std::int64_t b = 0; b < sequences; ++b) {
    const auto s = static_cast<std::size_t>(b);
    const std::int64_t first = offsets[s], count = padded ? lengths[s] : offsets[s + 1] - first;
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0, magnitude = 0, largest = -INFINITY;
      for (std::int64_t t = first; t < first + count; ++t) {
        sum += x(t, j);
        magnitude += std::abs(x(t, j));
        largest = std::max<double>(largest, x(t, j));
      }
      const auto n = static_cast<double>(count);
      const double expected = pooling == Pooling::first  ? x(first, j)
                              : pooling == Pooling::last ? x(first + count - 1, j)
                              : pooling == Pooling::mean ? sum / n
                              : pooling == Pooling::ends ? x(j < columns / 2 ? first + count - 1 : first, j)
                                                         : largest;
      // A mean has count − 1 additions and a division in float; the others are exact.
      const double bound = pooling == Pooling::mean ? n * 0x1p-24 * magnitude / n : 0;
      wrong += std::abs(y(b, j) - expected) > bound;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("Gradients of pooled rows are central differences, in the type of the rows") {
  const Pooling pooling = GENERATE(Pooling::first, Pooling::last, Pooling::mean, Pooling::max, Pooling::ends);
  const DataType type = GENERATE(DataType::fp32, DataType::bf16);
  const bool padded = GENERATE(false, true);
  CAPTURE(static_cast<int>(pooling), core::name_of(type), padded);
  constexpr std::int64_t columns = 10;
  const test::Vector<std::int32_t> offsets{0, 1, 5, 8}, lengths{1, 2, 3}, sequence{0, 1, 1, 1, 1, 2, 2, 2};
  const core::TokenRows rows{.count = 8, .offsets = offsets.data(), .sequence = sequence.data()};
  const std::int32_t* const real = padded ? lengths.data() : nullptr;
  StoredMatrix x = StoredMatrix::random(type, 8, columns, 3, 2.0f);
  const StoredMatrix d_y = StoredMatrix::random(type, 3, columns, 4);
  StoredMatrix y(type, 3, columns), d_x(type, 8, columns);
  test::Vector<std::int32_t> winners(3 * columns);
  const core::Tensor<std::int32_t> won(winners.data(), 3, columns);
  ops::pool_rows(pooling, x, rows, real, y, won);
  ops::pool_rows_backward(pooling, won, rows, real, d_y, d_x);
  test::Matrix pooled(3, columns);
  const auto objective = [&](const StoredMatrix& moved) {
    ops::pool_rows(pooling, moved, rows, real, pooled.tensor());
    double sum = 0;
    for (std::int64_t b = 0; b < 3; ++b) {
      for (std::int64_t j = 0; j < columns; ++j) sum += double{pooled(b, j)} * d_y(b, j);
    }
    return sum;
  };
  std::int64_t wrong = 0;
  for (std::int64_t t = 0; t < 8; ++t) {
    for (std::int64_t j = 0; j < columns; ++j) {
      // Pooling is piecewise linear; a step of 2^-5 is exact in the type and changes no maximum of these values.
      constexpr float step = 0x1p-5f;
      StoredMatrix moved = x;
      moved.set(t, j, x(t, j) + step);
      const double width = double{moved(t, j)} - x(t, j);
      const double expected = (objective(moved) - objective(x)) / width;
      wrong += std::abs(d_x(t, j) - expected) > (type == DataType::fp32 ? 2e-4 : 1e-2);
    }
  }
  CHECK(wrong == 0);
}
