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
  const Pooling pooling = GENERATE(Pooling::last, Pooling::mean, Pooling::max);
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
      const double expected = pooling == Pooling::last   ? x(first + count - 1, j)
                              : pooling == Pooling::mean ? sum / n
                                                         : largest;
      // A mean has count − 1 additions and a division in float; the others are exact.
      const double bound = pooling == Pooling::mean ? n * 0x1p-24 * magnitude / n : 0;
      wrong += std::abs(y(b, j) - expected) > bound;
    }
  }
  CHECK(wrong == 0);
}
