#include "bert_hpc/ops/binary_cross_entropy.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

/// −y·log σ(x) − (1 − y)·log(1 − σ(x)) in double precision, as its definition says.
double plain_loss(double x, double y) {
  const double sigmoid = 1 / (1 + std::exp(-x));
  return -y * std::log(sigmoid) - (1 - y) * std::log(1 - sigmoid);
}

bool has(std::int64_t i, std::int64_t j) {
  return (i * 5 + j * 3) % 7 < 3;
}

test::Vector<float> targets_of(std::int64_t rows, std::int64_t names) {
  test::Vector<float> targets;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < names; ++j) targets.push_back(has(i, j) ? 1.0f : 0.0f);
  }
  return targets;
}

}  // namespace

TEST_CASE("binary cross entropy against a plain loop, and its gradient against finite differences") {
  for (const std::int64_t names : {1, 2, 33, 1000}) {
    const std::int64_t rows = 7;
    const Matrix logits = Matrix::random(rows, names, 1, 3.0f, 2);
    const test::Vector<float> targets = targets_of(rows, names);
    Matrix loss(1, rows), d_logits(rows, names, 1);
    const float scale = 0.125f;
    ops::binary_cross_entropy(logits, targets.data(), scale, loss.values.data(), d_logits);
    // Terms below 16 with a few roundings of 2⁻²⁴ each: 5e-6 a term, and so of a mean.
    CHECK(test::largest_difference(loss, [&](auto, auto i) {
            double sum = 0;
            for (std::int64_t j = 0; j < names; ++j) sum += plain_loss(logits(i, j), has(i, j));
            return sum / static_cast<double>(names);
          }) < 5e-6);
    // Differences of a step h: h² / 6 of the third derivative, below 0.13, is 2e-10; rounding 1e-16 · 16 / h is less.
    constexpr double h = 1e-4;
    CHECK(test::largest_difference(d_logits, [&](auto i, auto j) {
            const double x = logits(i, j), y = has(i, j);
            const double slope = (plain_loss(x + h, y) - plain_loss(x - h, y)) / (2 * h);
            return scale * slope / static_cast<double>(names);
          }) < 5e-7 * scale / static_cast<double>(names));  // a sigmoid below 1 with a few roundings of 2⁻²⁴
    CHECK(d_logits.padding_untouched());
    Matrix again(1, rows), in_place(logits);
    ops::binary_cross_entropy(in_place, targets.data(), scale, again.values.data(), in_place);
    CHECK(again.values == loss.values);
    CHECK(test::bits_of(in_place) == test::bits_of(d_logits));
    ops::binary_cross_entropy(logits, targets.data(), scale, again.values.data(), core::Tensor<float>());
    CHECK(again.values == loss.values);
  }
}

TEST_CASE("binary cross entropy is finite for large logits, and not finite for logits that are not finite") {
  Matrix logits(1, 4), loss(1, 1), d_logits(1, 4);
  const float values[4] = {200, 200, -200, -200}, targets[4] = {1, 0, 1, 0};
  std::copy(values, values + 4, logits.values.begin());
  const test::Vector<float> on_device(targets, targets + 4);
  ops::binary_cross_entropy(logits, on_device.data(), 1.0f, loss.values.data(), d_logits);
  CHECK(loss(0, 0) == 100.0f);
  CHECK(d_logits.values == test::Vector<float>{0, 0.25f, -0.25f, 0});
  logits(0, 3) = std::nanf("");
  ops::binary_cross_entropy(logits, on_device.data(), 1.0f, loss.values.data(), core::Tensor<float>());
  CHECK(std::isnan(loss(0, 0)));
}
