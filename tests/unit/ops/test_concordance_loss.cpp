#include "bert_hpc/ops/concordance_loss.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

constexpr std::int64_t rows = 37;

/// The definition in the header, in double precision. `step` is added to the prediction of row `changed`.
double plain_loss(const Matrix& predicted, const Matrix& labels, std::int64_t changed = -1, double step = 0) {
  const auto x = [&](std::int64_t i) { return predicted(i, 0) + (i == changed ? step : 0.0); };
  double mx = 0, my = 0, vx = 0, vy = 0, c = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    mx += x(i) / rows;
    my += static_cast<double>(labels(0, i)) / rows;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    vx += (x(i) - mx) * (x(i) - mx) / rows;
    vy += (labels(0, i) - my) * (labels(0, i) - my) / rows;
    c += (x(i) - mx) * (labels(0, i) - my) / rows;
  }
  return 1 - 2 * c / (vx + vy + (mx - my) * (mx - my));
}

}  // namespace

TEST_CASE("the concordance loss against a plain loop, and its gradient against finite differences") {
  const Matrix predicted = Matrix::random(rows, 1, 1, 1.0f, 1), labels = Matrix::random(1, rows, 5, 2.0f);
  const float scale = 0.25f;
  Matrix loss(1, rows), gradient(rows, 1, 1);
  ops::concordance_loss(predicted, labels.values.data(), 0, scale, loss.values.data(), gradient);
  // Sums are doubles; the results are rounded once: 2⁻²⁴ of a loss below 2, and of gradients below 1.
  CHECK(test::largest_difference(loss, [&](auto, auto) { return plain_loss(predicted, labels); }) < 2e-7);
  // Differences of a step h have an error of h² / 6 of the third derivative (below 10) and of 1e-16 · rows / h.
  constexpr double h = 1e-5;
  CHECK(test::largest_difference(gradient, [&](auto row, auto) {
          return scale * rows * (plain_loss(predicted, labels, row, h) - plain_loss(predicted, labels, row, -h)) /
                 (2 * h);
        }) < 1e-7);
  CHECK(gradient.padding_untouched());
  // A part of the rows gets the same bits.
  constexpr std::int64_t begin = 11, count = 9;
  Matrix part(count, 1, 1), part_loss(1, count);
  ops::concordance_loss(predicted, labels.values.data(), begin, scale, part_loss.values.data(), part);
  for (std::int64_t i = 0; i < count; ++i) {
    CHECK(part(i, 0) == gradient(begin + i, 0));
    CHECK(part_loss(0, i) == loss(0, 0));
  }
}

TEST_CASE("the concordance loss of right, of equal and of broken predictions") {
  Matrix labels = Matrix::random(1, rows, 5, 2.0f), predicted(rows, 1), gradient(rows, 1), loss(1, rows);
  const auto compute = [&] {
    ops::concordance_loss(predicted, labels.values.data(), 0, 1.0f, loss.values.data(), gradient);
  };
  for (std::int64_t i = 0; i < rows; ++i) predicted(i, 0) = labels(0, i);
  compute();
  CHECK(std::abs(loss(0, 0)) < 1e-12);
  for (std::int64_t i = 0; i < rows; ++i) predicted(i, 0) = 3;
  compute();
  CHECK(loss(0, 7) == 1);  // nothing in common
  CHECK(std::isfinite(gradient(7, 0)));
  for (std::int64_t i = 0; i < rows; ++i) labels(0, i) = 3;
  compute();
  CHECK(loss(0, 7) == 0);
  CHECK(gradient(7, 0) == 0);
  predicted(5, 0) = std::nanf("");
  compute();
  CHECK(std::isnan(loss(0, 7)));
}
