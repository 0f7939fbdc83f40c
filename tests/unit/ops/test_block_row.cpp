// Cross entropy of rows that a block's threads share, and the largest of a row that a warp shares, as a GPU computes
// them: all threads' parts one after the other on the host. See src/ops/block_row.hpp.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "../src/ops/block_row.hpp"
#include "bert_hpc/ops/losses.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using core::DataType;
using test::StoredMatrix;

namespace {

/// Loss, and the probability of each column, in double.
struct Expected {
  Expected(const StoredMatrix& x, std::int64_t row, std::int64_t columns)
      : probabilities(static_cast<std::size_t>(columns)) {
    double largest = -INFINITY;
    for (std::int64_t j = 0; j < columns; ++j) largest = std::max(largest, static_cast<double>(x(row, j)));
    double total = 0;
    for (std::int64_t j = 0; j < columns; ++j) total += std::exp(x(row, j) - largest);
    log_sum = largest + std::log(total);
    for (std::int64_t j = 0; j < columns; ++j)
      probabilities[static_cast<std::size_t>(j)] = std::exp(x(row, j) - log_sum);
  }
  double log_sum = 0;
  std::vector<double> probabilities;
};

}  // namespace

TEST_CASE("cross entropy of a row that a block shares") {
  const float scale = 0.125f;
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16}) {
    for (const std::int64_t columns : {1, 7, 33, 4096, 30522}) {
      INFO(core::name_of(type) << ", " << columns << " columns");
      StoredMatrix x = StoredMatrix::random(type, 2, columns, 3, 3.0f, 6);
      x.set(0, columns / 2, 100.0f);  // exp(100) is infinite in float: the maximum must be taken off
      const auto label = static_cast<std::int32_t>(columns * 2 / 3);
      for (std::int64_t i = 0; i < 2; ++i) {
        const Expected expected(x, i, columns);
        StoredMatrix d_x(type, 2, columns, 6), in_place = x;
        float loss = 0, alone = 0, again = 0;
        core::with_type(type, [&]<class T>() {
          const ops::block_row::BlockInTurn block;
          const auto row = [&](StoredMatrix& of) { return of.host().as<T>().row(i); };
          ops::block_row::cross_entropy(block, row(x), columns, label, scale, &loss, row(d_x));
          ops::block_row::cross_entropy(block, row(x), columns, label, scale, &alone, static_cast<T*>(nullptr));
          ops::block_row::cross_entropy(block, row(in_place), columns, label, scale, &again, row(in_place));
        });
        // A loss up to 115, where half a unit in the last place is 4e-6: of the logarithm, the difference and the sum;
        // and the total's error, of 60 additions by a thread and 20 merges with two exponentials of 1.5e-7 each.
        CHECK(std::abs(loss - (expected.log_sum - x(i, label))) < 1.2e-5 + 1e-5);
        CHECK((alone == loss && again == loss));
        // A probability: exponents below 128 are off by half a unit of 64, 4e-6, and the total by as much and by the
        // roundings above, 2e-5 of it in all. A gradient is then rounded to its type; below fp16's normal numbers to
        // 2⁻²⁵.
        const double unit = core::unit_roundoff(type);
        bool right = true;
        for (std::int64_t j = 0; j < columns; ++j) {
          const double p = expected.probabilities[static_cast<std::size_t>(j)], gradient = scale * (p - (j == label));
          const double tolerance = 2e-5 * scale * p + 1.001 * unit * std::abs(gradient) + std::ldexp(1.0, -25);
          right = right && std::abs(d_x(i, j) - gradient) <= tolerance;
          right = right && d_x(i, j) == in_place(i, j);
        }
        CHECK(right);
        CHECK((d_x.padding_untouched() && x.padding_untouched()));
      }
    }
  }
}

TEST_CASE("16-bit logits: losses and gradients equal those of the same numbers in float except for one rounding") {
  const std::int64_t rows = 5, columns = 301;
  test::Vector<std::int32_t> labels = {0, 17, 300, 299, 5};
  for (const DataType type : {DataType::bf16, DataType::fp16}) {
    const StoredMatrix x = StoredMatrix::random(type, rows, columns, 9, 3.0f, 3);
    test::Matrix same(rows, columns), d_same(rows, columns), loss(1, rows), loss_same(1, rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) same(i, j) = x(i, j);
    }
    ops::cross_entropy(same, labels.data(), 0.5f, loss_same.values.data(), d_same);
    StoredMatrix d_x(type, rows, columns, 3), in_place = x;
    ops::cross_entropy(x.view(), labels.data(), 0.5f, loss.values.data(), d_x.view());
    CHECK(loss.values == loss_same.values);
    ops::cross_entropy(in_place.view(), labels.data(), 0.5f, loss.values.data(), in_place.view());
    CHECK(loss.values == loss_same.values);
    ops::cross_entropy(x.view(), labels.data(), 0.5f, loss.values.data(), core::Matrix());
    CHECK(loss.values == loss_same.values);
    bool right = true;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        // Half a unit of the type, and another of float where a sum is contracted.
        const float tolerance = static_cast<float>(core::unit_roundoff(type)) * 1.01f * std::abs(d_same(i, j)) + 4e-8f;
        right = right && std::abs(d_x(i, j) - d_same(i, j)) <= tolerance && d_x(i, j) == in_place(i, j);
      }
    }
    CHECK(right);
    CHECK((d_x.padding_untouched() && in_place.padding_untouched()));
    test::Vector<std::int32_t> predicted(static_cast<std::size_t>(rows)), predicted_same = predicted;
    ops::arg_max(x.view(), predicted.data());
    ops::arg_max(same, predicted_same.data());
    CHECK(predicted == predicted_same);
  }
}

TEST_CASE("the maximum of a row is the first among equals for any division among a warp's lanes") {
  constexpr int lanes = ops::packs::warp_lanes;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> ties(100, 1.0f), later(100, -2.0f), unknown(100, 0.5f), first_unknown(100, 3.0f);
  ties[70] = ties[41] = ties[9 + lanes] = ties[99] = 4.0f;
  later[99] = later[67] = -1.0f;
  unknown[3] = nan;
  unknown[50] = unknown[20] = 2.0f;
  first_unknown[0] = nan;
  for (const std::vector<float>& row : {ties, later, unknown, first_unknown}) {
    std::size_t expected = 0;
    for (std::size_t j = 1; j < row.size(); ++j) {
      if (row[j] > row[expected]) expected = j;
    }
    std::vector<ops::packs::Largest> parts(lanes, {row[0], 0});
    for (std::size_t j = 0; j < row.size(); ++j) parts[j % lanes].add(row[j], static_cast<int>(j));
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      const auto before = parts;
      for (int l = 0; l < lanes; ++l) {
        const ops::packs::Largest& other = before[static_cast<std::size_t>(l ^ distance)];
        parts[static_cast<std::size_t>(l)].add(other.value, other.index);
      }
    }
    for (const ops::packs::Largest& part : parts) CHECK(part.index == static_cast<int>(expected));
  }
}
