// Losses between hidden states: against their definitions in double, and their gradients against finite differences.
#include "bert_hpc/ops/hidden_states.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <vector>

#include "support/sample_tensors.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using test::Matrix;
using test::StoredMatrix;

namespace {

using Values = std::vector<double>;

Values row_of(const StoredMatrix& m, std::int64_t row) {
  Values values;
  for (std::int64_t j = 0; j < m.columns(); ++j) values.push_back(m(row, j));
  return values;
}

double loss_of(const ops::StateTerms& terms, const Values& x, const Values& y) {
  double squares = 0, xy = 0, xx = 0, yy = 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    squares += (x[j] - y[j]) * (x[j] - y[j]) / static_cast<double>(x.size());
    xy += x[j] * y[j];
    xx += x[j] * x[j];
    yy += y[j] * y[j];
  }
  return terms.squares * squares + terms.cosine * (1 - xy / std::sqrt(xx * yy));
}

double slope(const ops::StateTerms& terms, Values x, const Values& y, std::size_t j) {
  constexpr double h = 1e-5;  // error h² / 6 of the third derivative
  const double at = x[j];
  x[j] = at + h;
  const double above = loss_of(terms, x, y);
  x[j] = at - h;
  return (above - loss_of(terms, x, y)) / (2 * h);
}

/// Three sequences of 1, 3 and 4 rows.
struct Rows {
  test::Vector<std::int32_t> sequence{0, 1, 1, 1, 2, 2, 2, 2}, position{0, 0, 1, 2, 0, 1, 2, 3};
  core::TokenRows rows() const { return {8, nullptr, sequence.data(), position.data()}; }
};

ops::StateTerms some_terms() {
  return GENERATE(ops::StateTerms{1, 0}, ops::StateTerms{0, 1}, ops::StateTerms{0.5f, 2});
}

}  // namespace

TEST_CASE("losses of hidden states against double, and their gradients against finite differences") {
  const std::int64_t columns = GENERATE(2, 7, 64);
  const ops::StateTerms terms = some_terms();
  const auto type = GENERATE(test::DataType::fp32, test::DataType::bf16, test::DataType::fp16);
  const bool padded = GENERATE(false, true);
  CAPTURE(columns, terms.squares, terms.cosine, padded);
  const StoredMatrix student = StoredMatrix::random(type, 8, columns, 1, 1.0f, 8);
  StoredMatrix teacher = StoredMatrix::random(type, 8, columns, 2, 1.0f, 8);
  const StoredMatrix before = teacher;
  const Rows tokens;
  const test::Vector<std::int32_t> lengths{1, 2, 4};
  Matrix loss(1, 8);
  ops::state_loss(terms, 0.25f, student.view(), tokens.rows(), padded ? lengths.data() : nullptr, teacher.view(),
                  loss.values.data());
  CHECK(teacher.padding_untouched());
  // Gradients are times the columns, below 200, and rounded to the type: 2⁻⁹ or 2⁻¹² of them.
  const double rounding = type == test::DataType::fp32 ? 2e-6 : type == test::DataType::bf16 ? 4e-3 : 5e-4;
  for (std::int64_t i = 0; i < 8; ++i) {
    const Values x = row_of(student, i), y = row_of(before, i);
    const bool counts = !padded || i != 3;
    CHECK(std::abs(loss(0, i) - (counts ? 0.25 * loss_of(terms, x, y) : 0.0)) < 1e-5);
    for (std::int64_t j = 0; j < columns; ++j) {
      const double expected =
          counts ? static_cast<double>(columns) * slope(terms, x, y, static_cast<std::size_t>(j)) : 0.0;
      CHECK(std::abs(teacher(i, j) - expected) < rounding * (1 + std::abs(expected)) + 2e-5);
    }
  }
}

TEST_CASE("equal hidden states have neither loss nor gradient, and zeros have no angle") {
  const ops::StateTerms terms = some_terms();
  const StoredMatrix student = StoredMatrix::random(test::DataType::fp32, 8, 64, 1);
  StoredMatrix teacher = StoredMatrix::random(test::DataType::fp32, 8, 64, 1);
  for (std::int64_t j = 0; j < 64; ++j) teacher.set(2, j, 0.0f);
  const Rows tokens;
  Matrix loss(1, 8);
  ops::state_loss(terms, 1.0f, student.view(), tokens.rows(), nullptr, teacher.view(), loss.values.data());
  for (std::int64_t i = 0; i < 8; ++i) {
    if (i == 2) continue;
    CHECK(loss(0, i) == 0.0f);
    for (std::int64_t j = 0; j < 64; ++j) CHECK(teacher(i, j) == 0.0f);
  }
  const Values x = row_of(student, 2);
  double squares = 0;
  for (const double value : x) squares += value * value / 64;
  CHECK(std::abs(loss(0, 2) - (terms.squares * squares + terms.cosine)) < 1e-5);
  for (std::int64_t j = 0; j < 64; ++j) {
    CHECK(std::abs(teacher(2, j) - 2 * terms.squares * x[static_cast<std::size_t>(j)]) < 1e-5);
  }
}

TEST_CASE("gradients at hidden states are added to the stream's") {
  const auto type = GENERATE(test::DataType::fp32, test::DataType::bf16);
  const StoredMatrix gradient = StoredMatrix::random(type, 8, 24, 1, 1.0f, 8);
  StoredMatrix d_state = StoredMatrix::random(type, 8, 24, 2);
  const StoredMatrix before = d_state;
  ops::add_state_gradient(0.5f, gradient.view(), d_state.view());
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t j = 0; j < 24; ++j) {
      CHECK(d_state(i, j) == test::rounded(type, before(i, j) + 0.5f * gradient(i, j)));
    }
  }
}
