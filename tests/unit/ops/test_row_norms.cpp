// Norms of rows, factors of columns and sums of products against plain loops in double precision.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "bert_hpc/ops/row_norms.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using test::DataType;
using test::Matrix;
using test::StoredMatrix;

namespace {

struct Extents {
  std::int64_t out, in, rank;
};

Extents some_extents() {
  return GENERATE(Extents{1, 1, 1}, Extents{7, 3, 2}, Extents{5, 33, 0}, Extents{65, 64, 8}, Extents{9, 1100, 3});
}

struct Shape {
  std::int64_t rows, columns;
};

Shape some_shape() {
  return GENERATE(Shape{1, 1}, Shape{3, 7}, Shape{70, 33}, Shape{129, 128}, Shape{0, 16});
}

}  // namespace

TEST_CASE("norms of the rows of a sum of matrices, and factors that give them magnitudes") {
  const Extents e = some_extents();
  Matrix w = Matrix::random(e.out, e.in, 1);
  const Matrix a = Matrix::random(e.rank, e.in, 2), b = Matrix::random(e.rank, e.out, 3);
  const Matrix magnitudes = Matrix::random(1, e.out, 4);
  constexpr float scale = 1.5f;
  const ops::LowRankSum sum = {.w = w, .a = a, .b = b, .scale = scale};
  Matrix norms(1, e.out), factors(1, e.out), alone(1, e.out);
  ops::row_norms(sum, magnitudes.values.data(), norms.values.data(), factors.values.data());
  const auto norm = [&](std::int64_t, std::int64_t o) {
    double squares = 0;
    for (std::int64_t i = 0; i < e.in; ++i) {
      double value = w(o, i);
      for (std::int64_t k = 0; k < e.rank; ++k) value += static_cast<double>(scale) * b(k, o) * a(k, i);
      squares += value * value;
    }
    return std::sqrt(squares);
  };
  // Elements below 30, each with 2 · 8 roundings; their errors are smaller than the norm by √in.
  const double tolerance = 16 * 0x1p-24 * 30;
  CHECK(test::largest_difference(norms, norm) < tolerance);
  CHECK(test::largest_difference(factors, [&](std::int64_t, std::int64_t o) {
          return magnitudes(0, o) / norms(0, o);
        }) < 0x1p-22 * std::abs(magnitudes(0, 0)) + 0x1p-20);
  ops::row_norms(sum, nullptr, alone.values.data(), nullptr);
  CHECK(test::bits_of(alone) == test::bits_of(norms));
  // Squares of some columns, added up, make the norms of all: two more roundings of squares below 30² · in.
  const std::int64_t cut = e.in / 3;
  Matrix squares(1, e.out), rest(1, e.out), shared(1, e.out);
  const auto part = [&](std::int64_t begin, std::int64_t count) {
    return ops::LowRankSum{.w = core::Tensor<const float>(w).column_range(begin, count),
                           .a = core::Tensor<const float>(a).column_range(begin, count),
                           .b = b,
                           .scale = scale};
  };
  ops::row_squares(part(0, cut), squares.values.data());
  ops::row_squares(part(cut, e.in - cut), rest.values.data());
  for (std::int64_t o = 0; o < e.out; ++o) squares(0, o) += rest(0, o);
  ops::finish_row_norms(e.out, magnitudes.values.data(), squares.values.data(), shared.values.data());
  CHECK(test::largest_difference(squares, norm) < tolerance);
  CHECK(test::largest_difference(shared, [&](std::int64_t, std::int64_t o) {
          return magnitudes(0, o) / squares(0, o);
        }) < 0x1p-22 * std::abs(magnitudes(0, 0)) + 0x1p-20);
  // A norm of 0 makes a factor of 0.
  for (std::int64_t i = 0; i < e.in; ++i) w(0, i) = 0;
  ops::row_norms({.w = w}, magnitudes.values.data(), norms.values.data(), factors.values.data());
  CHECK(norms(0, 0) == 0);
  CHECK(factors(0, 0) == 0);
}

TEST_CASE("factors of columns") {
  const Shape e = some_shape();
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const StoredMatrix x = StoredMatrix::random(type, e.rows, e.columns, 1, 1.0f, 3);
  const Matrix factors = Matrix::random(1, e.columns, 2), bias = Matrix::random(1, e.columns, 3);
  StoredMatrix y = StoredMatrix::random(type, e.rows, e.columns, 4, 1.0f, 2);
  const StoredMatrix before(y);
  const auto check = [&](const StoredMatrix& result, const auto& expected) {
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < e.rows; ++i) {
      for (std::int64_t j = 0; j < e.columns; ++j) {
        const double wanted = expected(i, j);
        // One rounding to the type, and three of floats below 20.
        if (!(std::abs(result(i, j) - wanted) <= core::unit_roundoff(type) * std::abs(wanted) + 4e-6)) ++wrong;
      }
    }
    CHECK(wrong == 0);
    CHECK(result.padding_untouched());
  };
  const auto scaled = [&](std::int64_t i, std::int64_t j) { return static_cast<double>(factors(0, j)) * x(i, j); };
  const float* const f = factors.values.data();
  ops::scale_columns({.factors = f, .shift = -1}, x, y, ops::Write::accumulate);
  check(y, [&](std::int64_t i, std::int64_t j) { return before(i, j) + scaled(i, j) - x(i, j); });
  ops::scale_columns({.factors = f}, x, y, ops::Write::replace);
  check(y, scaled);
  StoredMatrix in_place(x);
  ops::scale_columns({.factors = f, .bias = bias.values.data()}, in_place, in_place, ops::Write::replace);
  check(in_place, [&](std::int64_t i, std::int64_t j) { return scaled(i, j) + bias(0, j); });
}

TEST_CASE("sums of products over rows, divided") {
  const Shape e = some_shape();
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const StoredMatrix x = StoredMatrix::random(type, e.rows, e.columns, 1, 1.0f, 3),
                     y = StoredMatrix::random(type, e.rows, e.columns, 2);
  Matrix divisors = Matrix::random(1, e.columns, 3), sums = Matrix::random(1, e.columns, 4);
  for (std::int64_t j = 0; j < e.columns; ++j) divisors(0, j) = 0.5f + std::abs(divisors(0, j));
  divisors(0, 0) = 0;
  const Matrix before(sums);
  ops::add_column_products(x, y, divisors.values.data(), sums.values.data());
  const auto expected = [&](std::int64_t, std::int64_t j) {
    double sum = 0;
    for (std::int64_t i = 0; i < e.rows; ++i) sum += static_cast<double>(x(i, j)) * y(i, j);
    return before(0, j) + (j == 0 ? 0 : sum / divisors(0, j));
  };
  // Blocks of 64 rows: 64 + 3 roundings of sums below 60, most of which cancel.
  CHECK(test::largest_difference(sums, expected) < 67 * 0x1p-24 * 60);
  CHECK(sums(0, 0) == before(0, 0));
}
