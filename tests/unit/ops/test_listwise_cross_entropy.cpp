#include "bert_hpc/ops/listwise_cross_entropy.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

// Queries of 1, 7, 32 and 3 candidates; rows 8, 9 and 45 are of none.
constexpr std::int64_t rows = 46, count = 4;
const test::Vector<std::int32_t> lists = {0, 1, 1, 8, 10, 42, 42, 45};

test::Vector<float> relevant_rows() {
  test::Vector<float> relevant(rows, 0.0f);
  for (const std::size_t row : {0, 3, 10, 20, 41, 42, 43, 44}) relevant[row] = 1.0f;
  return relevant;
}
const test::Vector<float> relevant = relevant_rows();

/// The query of a row; −1 of none.
std::int64_t list_of(std::int64_t row) {
  for (std::int64_t q = 0; q < count; ++q) {
    if (row >= lists[static_cast<std::size_t>(2 * q)] && row < lists[static_cast<std::size_t>(2 * q + 1)]) return q;
  }
  return -1;
}

/// The definition in the header, in double precision. `step` is added to the score of `changed`.
double plain_loss(const Matrix& logits, std::int64_t q, std::int64_t changed = -1, double step = 0) {
  const auto begin = lists[static_cast<std::size_t>(2 * q)], end = lists[static_cast<std::size_t>(2 * q + 1)];
  const auto x = [&](std::int64_t row) { return logits(row, 0) + (row == changed ? step : 0.0); };
  double total = 0, sum = 0, right = 0;
  for (std::int64_t row = begin; row < end; ++row) total += std::exp(x(row));
  for (std::int64_t row = begin; row < end; ++row) {
    if (relevant[static_cast<std::size_t>(row)] == 0) continue;
    sum -= std::log(std::exp(x(row)) / total);
    right += 1;
  }
  return sum / right;
}

}  // namespace

TEST_CASE("listwise cross entropy against a plain loop, and its gradient against finite differences") {
  const Matrix logits = Matrix::random(rows, 1, 1, 3.0f, 2);
  Matrix loss(1, rows), d_logits(rows, 1, 1);
  const float scale = 0.125f;
  ops::listwise_cross_entropy(logits, lists.data(), count, relevant.data(), scale, loss.values.data(), d_logits);
  // A loss is below 20: a few roundings of 2⁻²⁴ · 20 = 1.2e-6 each.
  CHECK(test::largest_difference(loss, [&](auto, auto row) {
          const std::int64_t q = list_of(row);
          return q >= 0 && row == lists[static_cast<std::size_t>(2 * q)] ? plain_loss(logits, q) : 0.0;
        }) < 1e-5);
  CHECK(loss(0, 0) == 0);  // of a single candidate
  // Differences of a step h have an error of h² / 6 of the third derivative: below 1e-8. A probability has a relative
  // error of a few times the 1.2e-6 of its exponent.
  constexpr double h = 1e-4;
  CHECK(test::largest_difference(d_logits, [&](auto row, auto) {
          const std::int64_t q = list_of(row);
          if (q < 0) return 0.0;
          return scale * (plain_loss(logits, q, row, h) - plain_loss(logits, q, row, -h)) / (2 * h);
        }) < 1e-5 * scale);
  CHECK(d_logits.padding_untouched());
  Matrix again(1, rows), in_place(logits);
  ops::listwise_cross_entropy(in_place, lists.data(), count, relevant.data(), scale, again.values.data(), in_place);
  CHECK(again.values == loss.values);
  CHECK(test::bits_of(in_place) == test::bits_of(d_logits));
  ops::listwise_cross_entropy(logits, lists.data(), count, relevant.data(), scale, again.values.data(),
                              core::Tensor<float>());
  CHECK(again.values == loss.values);
}

TEST_CASE("a query's loss depends on its own candidates alone, and does not overflow") {
  Matrix logits = Matrix::random(rows, 1, 1, 3.0f, 2), loss(1, rows), d_logits(rows, 1, 1);
  logits(20, 0) = std::nanf("");
  logits(2, 0) = 1e5f;
  ops::listwise_cross_entropy(logits, lists.data(), count, relevant.data(), 1.0f, loss.values.data(), d_logits);
  CHECK(std::isnan(loss(0, 10)));
  CHECK(std::abs(loss(0, 1) - (1e5f - logits(3, 0))) < 0.02f);  // two roundings of 2⁻²⁴ · 1e5
  CHECK(std::isfinite(loss(0, 42)));
  ops::listwise_cross_entropy(logits, lists.data(), 0, relevant.data(), 1.0f, loss.values.data(), d_logits);
  for (std::int64_t row = 0; row < rows; ++row) {
    CHECK(loss(0, row) == 0);
    CHECK(d_logits(row, 0) == 0);
  }
}
