#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/gelu_tanh.hpp"
#include "support/sample_tensors.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

double gelu(double x) {
  return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
}

double gelu_slope(double x) {
  return 0.5 * (1.0 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::acos(-1.0));
}

double gelu_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

double gelu_tanh_slope(double x) {
  const double root = std::sqrt(2.0 / std::acos(-1.0)), t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root * (1.0 + 3 * 0.044715 * x * x);
}

struct Extents {
  std::int64_t rows, columns, padding;
};

Extents some_extents() {
  return GENERATE(Extents{1, 1, 0}, Extents{3, 7, 2}, Extents{70, 33, 0}, Extents{129, 128, 5}, Extents{0, 16, 0});
}

}  // namespace

TEST_CASE("GELU and its gradient") {
  const Extents e = some_extents();
  // Scale 3: also the tails, where erf is ±1 and the density underflows.
  const Matrix x = Matrix::random(e.rows, e.columns, 1, 3.0f, e.padding);
  const Matrix d_y = Matrix::random(e.rows, e.columns, 2, 1.0f, e.padding);
  Matrix y(e.rows, e.columns, e.padding), d_x(e.rows, e.columns, e.padding);
  ops::gelu_forward(x, y);
  ops::gelu_backward(x, d_y, d_x);
  // |x| < 15: two roundings of x·Φ (2⁻²³·15 = 1.8e-6) and an error of erf below 4 units in the last place (Φ: 1.2e-7).
  CHECK(test::largest_difference(y, [&](auto i, auto j) { return gelu(x(i, j)); }) < 4e-6);
  // Slope below 1.13, |d_y| < 5: six roundings.
  CHECK(test::largest_difference(d_x, [&](auto i, auto j) { return d_y(i, j) * gelu_slope(x(i, j)); }) < 5e-6);
  CHECK(y.padding_untouched());
  CHECK(d_x.padding_untouched());

  const auto bits = test::bits_of(y), bits_d = test::bits_of(d_x);
  Matrix in_place(x), d_in_place(d_y);
  ops::gelu_forward(in_place, in_place);
  ops::gelu_backward(x, d_in_place, d_in_place);
  CHECK(test::bits_of(in_place) == bits);
  CHECK(test::bits_of(d_in_place) == bits_d);
}

TEST_CASE("GELU far out: no NaN, 0 on the left, x on the right") {
  Matrix x(1, 4), y(1, 4), d_x(1, 4);
  const float values[4] = {-1e30f, -40.0f, 40.0f, 1e30f};
  for (int j = 0; j < 4; ++j) x(0, j) = values[j];
  Matrix ones(1, 4);
  for (int j = 0; j < 4; ++j) ones(0, j) = 1.0f;
  ops::gelu_forward(x, y);
  ops::gelu_backward(x, ones, d_x);
  for (int j = 0; j < 4; ++j) {
    CHECK(y(0, j) == (j < 2 ? 0.0f : values[j]));
    CHECK(d_x(0, j) == (j < 2 ? 0.0f : 1.0f));
  }
}

TEST_CASE("GELU with tanh and its gradient") {
  const Extents e = some_extents();
  const Matrix x = Matrix::random(e.rows, e.columns, 1, 3.0f, e.padding);
  const Matrix d_y = Matrix::random(e.rows, e.columns, 2, 1.0f, e.padding);
  Matrix y(e.rows, e.columns, e.padding), d_x(e.rows, e.columns, e.padding);
  ops::gelu_tanh_forward(x, y);
  ops::gelu_tanh_backward(x, d_y, d_x);
  // Up to |x| = 10, beyond which it is 0 or x: two roundings and the error of σ, 3e-7 (exponential, sum, quotient).
  CHECK(test::largest_difference(y, [&](auto i, auto j) { return gelu_tanh(x(i, j)); }) < 4e-6);
  // Slope below 1.13, |d_y| < 5: eight roundings and the error of σ.
  CHECK(test::largest_difference(d_x, [&](auto i, auto j) { return d_y(i, j) * gelu_tanh_slope(x(i, j)); }) < 5e-6);
  CHECK(y.padding_untouched());
  CHECK(d_x.padding_untouched());
}

TEST_CASE("GELU with tanh far out: no NaN, 0 on the left, x on the right") {
  Matrix x(1, 4), y(1, 4), d_x(1, 4), ones(1, 4);
  const float values[4] = {-1e30f, -40.0f, 40.0f, 1e30f};
  for (int j = 0; j < 4; ++j) x(0, j) = values[j];
  for (int j = 0; j < 4; ++j) ones(0, j) = 1.0f;
  ops::gelu_tanh_forward(x, y);
  ops::gelu_tanh_backward(x, ones, d_x);
  for (int j = 0; j < 4; ++j) {
    CHECK(std::abs(y(0, j) - (j < 2 ? 0.0f : values[j])) < 1e-35f);
    CHECK(std::abs(d_x(0, j) - (j < 2 ? 0.0f : 1.0f)) < 1e-35f);
  }
}

TEST_CASE("tanh and its gradient") {
  const Extents e = some_extents();
  const Matrix x = Matrix::random(e.rows, e.columns, 3, 2.0f, e.padding);
  const Matrix d_y = Matrix::random(e.rows, e.columns, 4, 1.0f, e.padding);
  Matrix y(e.rows, e.columns, e.padding), d_x(e.rows, e.columns, e.padding);
  ops::tanh_forward(x, y);
  ops::tanh_backward(y, d_y, d_x);
  // A few units in the last place of a value below 1.
  CHECK(test::largest_difference(y, [&](auto i, auto j) { return std::tanh(static_cast<double>(x(i, j))); }) < 5e-7);
  // 2·y·δy·d_y + roundings, |d_y| < 5.
  const auto slope = [&](auto i, auto j) {
    const double t = std::tanh(static_cast<double>(x(i, j)));
    return d_y(i, j) * (1.0 - t * t);
  };
  CHECK(test::largest_difference(d_x, slope) < 6e-6);
  CHECK(y.padding_untouched());
}

TEST_CASE("add and add_bias") {
  const Extents e = some_extents();
  const Matrix x = Matrix::random(e.rows, e.columns, 5, 1.0f, e.padding), bias = Matrix::random(1, e.columns, 6);
  const Matrix start = Matrix::random(e.rows, e.columns, 7);
  Matrix y(start);
  ops::add(x, y);
  ops::add_bias(y, bias.values.data());
  bool equal = true;
  for (std::int64_t i = 0; i < e.rows; ++i) {
    for (std::int64_t j = 0; j < e.columns; ++j) equal = equal && y(i, j) == (start(i, j) + x(i, j)) + bias(0, j);
  }
  CHECK(equal);
}

TEST_CASE("column sums replace or accumulate") {
  const Extents e =
      GENERATE(Extents{1, 1, 0}, Extents{63, 5, 1}, Extents{64, 32, 0}, Extents{1000, 100, 3}, Extents{0, 9, 0});
  const Matrix x = Matrix::random(e.rows, e.columns, 8, 1.0f, e.padding);
  Matrix sums(1, e.columns);
  ops::column_sums(x, sums.values.data(), ops::Write::replace);
  const auto reference = [&](std::int64_t, std::int64_t j) {
    double total = 0.0;
    for (std::int64_t i = 0; i < e.rows; ++i) total += x(i, j);
    return total;
  };
  // At most 64 + rows/64 additions, partial sums below 40: (64 + 16)·40·2⁻²⁴ = 1.9e-4 at the very worst.
  CHECK(test::largest_difference(sums, reference) < 2e-4);
  const Matrix before(sums);
  ops::column_sums(x, sums.values.data(), ops::Write::accumulate);
  bool doubled = true;
  for (std::int64_t j = 0; j < e.columns; ++j) doubled = doubled && sums(0, j) == 2.0f * before(0, j);
  CHECK(doubled);
}

TEST_CASE("gather and scatter rows") {
  const Matrix x = Matrix::random(6, 9, 9, 1.0f, 3);
  const test::Vector<std::int32_t> rows{5, 0, 3};
  Matrix y(3, 9);
  ops::gather_rows(x, rows.data(), y);
  Matrix sums(x);
  ops::scatter_add_rows(y, rows.data(), sums);
  bool right = true;
  for (std::int64_t j = 0; j < 9; ++j) {
    for (std::int64_t i = 0; i < 3; ++i) right = right && y(i, j) == x(rows[static_cast<std::size_t>(i)], j);
    for (std::int64_t i = 0; i < 6; ++i) {
      const bool selected = i == 5 || i == 0 || i == 3;
      right = right && sums(i, j) == (selected ? 2.0f : 1.0f) * x(i, j);
    }
  }
  CHECK(right);
  ops::gather_rows(x, nullptr, Matrix(0, 9));
}

TEST_CASE("relu keeps positive values and their gradients") {
  for (const core::DataType type : {core::DataType::fp32, core::DataType::bf16}) {
    const test::StoredMatrix x = test::StoredMatrix::random(type, 7, 33, 1),
                             d_y = test::StoredMatrix::random(type, 7, 33, 2);
    test::StoredMatrix y(type, 7, 33), d_x(type, 7, 33);
    ops::relu_forward(x, y);
    ops::relu_backward(y, d_y, d_x);
    for (std::int64_t i = 0; i < 7; ++i) {
      for (std::int64_t j = 0; j < 33; ++j) {
        CHECK(y(i, j) == std::max(x(i, j), 0.0f));
        CHECK(d_x(i, j) == (x(i, j) > 0 ? d_y(i, j) : 0.0f));
      }
    }
  }
}
