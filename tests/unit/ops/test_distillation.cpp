// Losses between a student's and a teacher's outputs: against their definitions in double, and their gradients against
// finite differences of these.
#include "bert_hpc/ops/distillation.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "bert_hpc/ops/losses.hpp"
#include "support/sample_tensors.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

using Values = std::vector<double>;

const std::vector<ops::SoftTerms> all_terms = {{.divergence = 1, .temperature = 1},
                                               {.divergence = 1, .temperature = 3},
                                               {.squares = 1},
                                               {.divergence = 0.5f, .squares = 2, .margins = 0.25f, .temperature = 2}};

/// T² · KL(softmax(y / T) ‖ softmax(x / T)) and the mean squared difference, weighted.
double distribution_loss(const ops::SoftTerms& terms, const Values& x, const Values& y) {
  const double cold = 1.0 / terms.temperature;
  double x_total = 0, y_total = 0, divergence = 0, squares = 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    x_total += std::exp(x[j] * cold);
    y_total += std::exp(y[j] * cold);
  }
  for (std::size_t j = 0; j < x.size(); ++j) {
    const double p = std::exp(y[j] * cold) / y_total, q = std::exp(x[j] * cold) / x_total;
    divergence += p * std::log(p / q);
    squares += (x[j] - y[j]) * (x[j] - y[j]) / static_cast<double>(x.size());
  }
  return terms.divergence * divergence / (cold * cold) + terms.squares * squares;
}

double names_loss(const ops::SoftTerms& terms, const Values& x, const Values& y) {
  double loss = 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    ops::SoftTerms of_pair = terms;  // a sigmoid is a softmax with a second output of 0
    of_pair.squares = 0;
    loss += distribution_loss(of_pair, {x[j], 0}, {y[j], 0}) + terms.squares * (x[j] - y[j]) * (x[j] - y[j]);
  }
  return loss / static_cast<double>(x.size());
}

double margins_loss(const ops::SoftTerms& terms, const Values& x, const Values& y, const std::vector<float>& relevant) {
  double sum = 0, pairs = 0;
  for (std::size_t p = 0; p < x.size(); ++p) {
    for (std::size_t n = 0; n < x.size(); ++n) {
      if (relevant[p] == 0 || relevant[n] != 0) continue;
      const double difference = (x[p] - x[n]) - (y[p] - y[n]);
      sum += difference * difference;
      pairs += 1;
    }
  }
  return distribution_loss(terms, x, y) + (pairs > 0 ? terms.margins * sum / pairs : 0);
}

/// The derivative of f at x[j].
double slope(const std::function<double(const Values&)>& f, Values x, std::size_t j) {
  constexpr double h = 1e-5;  // error h² / 6 of the third derivative: below 1e-9
  const double at = x[j];
  x[j] = at + h;
  const double above = f(x);
  x[j] = at - h;
  return (above - f(x)) / (2 * h);
}

Values entries(const test::StoredMatrix& m, std::int64_t begin, std::int64_t end, std::int64_t column) {
  Values values;
  for (std::int64_t i = begin; i < end; ++i) values.push_back(m(i, column));
  return values;
}
Values entries(const Matrix& m, std::int64_t begin, std::int64_t end, std::int64_t column) {
  Values values;
  for (std::int64_t i = begin; i < end; ++i) values.push_back(m(i, column));
  return values;
}
template <class M>
Values row_of(const M& m, std::int64_t row, std::int64_t columns) {
  Values values;
  for (std::int64_t j = 0; j < columns; ++j) values.push_back(m(row, j));
  return values;
}

test::DataType a_type() {
  return GENERATE(test::DataType::fp32, test::DataType::bf16, test::DataType::fp16);
}

// Outputs are below 12 (three deviations of 4), so that a log-probability is a difference of numbers below 24 with
// roundings of 2⁻²⁴ · 24 = 1.4e-6 each, of which a sum of T² ≤ 9 times the probabilities has few; squares are below 24²
// with roundings of 2⁻²⁴ · 600 = 4e-5 in a weighted sum.
constexpr double tolerance = 1e-4;

}  // namespace

TEST_CASE("soft losses of classes and of names against double, and their gradients against finite differences") {
  const std::int64_t rows = 5, columns = GENERATE(1, 2, 7, 40);
  const ops::SoftTerms terms = all_terms[static_cast<std::size_t>(GENERATE(0, 1, 2, 3))];
  const bool of_names = GENERATE(false, true);
  CAPTURE(columns, of_names, terms.divergence, terms.squares, terms.temperature);
  const test::StoredMatrix student = test::StoredMatrix::random(a_type(), rows, columns, 1, 4.0f, 8);
  Matrix teacher = Matrix::random(rows, columns, 2, 4.0f, 0), loss(1, rows);
  const Matrix before = teacher;
  (of_names ? ops::soft_names : ops::soft_classes)(terms, student, teacher.tensor(), loss.values.data());
  for (std::int64_t i = 0; i < rows; ++i) {
    const Values x = row_of(student, i, columns), y = row_of(before, i, columns);
    const auto f = [&](const Values& at) {
      return of_names ? names_loss(terms, at, y) : distribution_loss(terms, at, y);
    };
    CHECK(std::abs(loss(0, i) - f(x)) < tolerance);
    for (std::int64_t j = 0; j < columns; ++j) {
      CHECK(std::abs(teacher(i, j) - slope(f, x, static_cast<std::size_t>(j))) < tolerance);
    }
  }
}

TEST_CASE("soft losses of classes that ranks share out are those of all classes") {
  constexpr std::int64_t rows = 5, classes = 101;
  constexpr int ranks = 4;
  const ops::SoftTerms terms = all_terms[static_cast<std::size_t>(GENERATE(0, 1, 2, 3))];
  Matrix student = Matrix::random(rows, classes, 1, 4.0f, 2), teacher = Matrix::random(rows, classes, 2, 4.0f, 0);
  student(0, 50) += 200.0f;  // maxima of one row on different ranks
  teacher(0, 3) += 200.0f;
  Matrix shared = teacher, loss(1, rows), maxima(2, rows), totals(4, rows);
  const Matrix before = teacher;
  ops::soft_classes(terms, student, teacher.tensor(), loss.values.data());
  const auto shard = [](const auto& of, int rank) {
    const std::int64_t begin = classes * rank / ranks;
    return of.column_range(begin, classes * (rank + 1) / ranks - begin);
  };
  const core::Tensor<const float> x = std::as_const(student).tensor(), y = before.tensor();
  // What the ranks' all-reduces do.
  std::fill(maxima.values.begin(), maxima.values.end(), -INFINITY);
  std::fill(totals.values.begin(), totals.values.end(), 0.0f);
  for (int rank = 0; rank < ranks; ++rank) {
    Matrix part(2, rows);
    ops::class_shard_maxima(shard(x, rank), part.tensor().row(0));
    ops::class_shard_maxima(shard(y, rank), part.tensor().row(1));
    for (std::size_t i = 0; i < part.values.size(); ++i) {
      maxima.values[i] = std::max(maxima.values[i], part.values[i]);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    Matrix part(4, rows);
    ops::soft_class_shard_totals(terms, shard(x, rank), shard(y, rank), maxima, part);
    for (std::size_t i = 0; i < part.values.size(); ++i) totals.values[i] += part.values[i];
  }
  for (int rank = 0; rank < ranks; ++rank) {
    Matrix row_loss(1, rows);
    ops::soft_class_shards(terms, classes, shard(x, rank), shard(shared.tensor(), rank), maxima, totals,
                           row_loss.values.data());
    for (std::int64_t i = 0; i < rows; ++i) {
      const double expected = distribution_loss(terms, row_of(student, i, classes), row_of(before, i, classes));
      // Sums of 101 terms in another order, 101 · 2⁻²⁴ of the loss; outputs of row 0 are twenty times as large.
      CHECK(std::abs(row_loss(0, i) - expected) < (i == 0 ? 20 : 1) * tolerance + 101 * 6e-8 * expected);
      CHECK(std::abs(row_loss(0, i) - loss(0, i)) < (i == 0 ? 20 : 1) * tolerance + 101 * 6e-8 * expected);
    }
  }
  CHECK(test::largest_difference(shared, [&](auto i, auto j) { return teacher(i, j); }) < tolerance);
}

TEST_CASE("soft losses of spans are those of each sequence, and padding has no gradient") {
  const ops::SoftTerms terms = all_terms[static_cast<std::size_t>(GENERATE(0, 1, 2, 3))];
  const bool padded = GENERATE(false, true);
  const test::Vector<std::int32_t> offsets{0, 1, 8, 30}, lengths{1, 4, 21};
  const test::StoredMatrix student = test::StoredMatrix::random(a_type(), 30, 2, 1, 4.0f, 8);
  Matrix teacher = Matrix::random(30, 2, 2, 4.0f, 0), loss(1, 30);
  const Matrix before = teacher;
  ops::soft_spans(terms, student, offsets.data(), padded ? lengths.data() : nullptr, 3, teacher.tensor(),
                  loss.values.data());
  for (std::size_t b = 0; b < 3; ++b) {
    const std::int64_t begin = offsets[b], end = offsets[b + 1], real = padded ? begin + lengths[b] : end;
    double expected = 0;
    for (int column = 0; column < 2; ++column) {
      const Values x = entries(student, begin, real, column), y = entries(before, begin, real, column);
      const auto f = [&](const Values& at) { return 0.5 * distribution_loss(terms, at, y); };
      expected += f(x);
      for (std::int64_t i = begin; i < end; ++i) {
        const double d = i < real ? slope(f, x, static_cast<std::size_t>(i - begin)) : 0.0;
        CHECK(std::abs(teacher(i, column) - d) < tolerance);
      }
    }
    CHECK(std::abs(loss(0, begin) - expected) < tolerance);
    for (std::int64_t i = begin + 1; i < end; ++i) CHECK(loss(0, i) == 0);
  }
}

TEST_CASE("soft losses of queries, with margins between relevant candidates and others") {
  // Queries of one candidate, of both kinds, of relevant ones alone; rows 0, 9 and 30 are of none.
  const test::Vector<std::int32_t> lists{1, 2, 2, 9, 10, 27, 27, 30};
  test::Vector<float> relevant(31, 0.0f);
  for (const std::size_t row : {1, 4, 10, 20, 21, 27, 28, 29}) relevant[row] = 1.0f;
  const ops::SoftTerms terms = all_terms[static_cast<std::size_t>(GENERATE(0, 1, 2, 3))];
  const test::StoredMatrix student = test::StoredMatrix::random(a_type(), 31, 1, 1, 4.0f, 8);
  Matrix teacher = Matrix::random(31, 1, 2, 4.0f, 0), loss(1, 31);
  const Matrix before = teacher;
  ops::soft_lists(terms, student, lists.data(), 4, relevant.data(), teacher.tensor(), loss.values.data());
  Values losses(31, 0.0), gradient(31, 0.0);
  for (std::size_t q = 0; q < 4; ++q) {
    const std::int64_t begin = lists[2 * q], end = lists[2 * q + 1];
    const Values x = entries(student, begin, end, 0), y = entries(before, begin, end, 0);
    const std::vector<float> is_right(relevant.begin() + begin, relevant.begin() + end);
    const auto f = [&](const Values& at) { return margins_loss(terms, at, y, is_right); };
    losses[static_cast<std::size_t>(begin)] = f(x);
    for (std::int64_t i = begin; i < end; ++i) {
      gradient[static_cast<std::size_t>(i)] = slope(f, x, static_cast<std::size_t>(i - begin));
    }
  }
  for (std::int64_t i = 0; i < 31; ++i) {
    CAPTURE(i);
    CHECK(std::abs(loss(0, i) - losses[static_cast<std::size_t>(i)]) < tolerance);
    CHECK(std::abs(teacher(i, 0) - gradient[static_cast<std::size_t>(i)]) < tolerance);
  }
}

TEST_CASE("a student with the teacher's outputs has no soft loss and no gradient") {
  const std::int64_t rows = 4, columns = 9;
  Matrix teacher = Matrix::random(rows, columns, 2, 5.0f, 0), loss(1, rows);
  const Matrix student = teacher;
  const int kind = GENERATE(0, 1, 2);
  if (kind < 2) {
    (kind == 0 ? ops::soft_names : ops::soft_classes)(all_terms[3], student.tensor(), teacher.tensor(),
                                                      loss.values.data());
  } else {
    Matrix maxima(2, rows), totals(4, rows);
    ops::class_shard_maxima(student.tensor(), maxima.tensor().row(0));
    ops::class_shard_maxima(teacher.tensor(), maxima.tensor().row(1));
    ops::soft_class_shard_totals(all_terms[3], student.tensor(), teacher.tensor(), maxima, totals);
    ops::soft_class_shards(all_terms[3], columns, student.tensor(), teacher.tensor(), maxima, totals,
                           loss.values.data());
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    CHECK(loss(0, i) == 0);
    for (std::int64_t j = 0; j < columns; ++j) CHECK(teacher(i, j) == 0);
  }
}

TEST_CASE("soft losses survive large outputs") {
  Matrix teacher(1, 3), loss(1, 1), student(1, 3);
  for (std::int64_t j = 0; j < 3; ++j) {
    student(0, j) = static_cast<float>(j == 0 ? 1000 : -1000);
    teacher(0, j) = static_cast<float>(j == 1 ? 1000 : -1000);
  }
  (GENERATE(false, true) ? ops::soft_names : ops::soft_classes)({.divergence = 1, .temperature = 2}, student.tensor(),
                                                                teacher.tensor(), loss.values.data());
  CHECK(std::isfinite(loss(0, 0)));
  for (std::int64_t j = 0; j < 3; ++j) CHECK(std::isfinite(teacher(0, j)));
}

TEST_CASE("rows of a batch get the outputs of their samples") {
  const Matrix all = Matrix::random(9, 3, 1);
  const test::Vector<std::int64_t> sample{7, 0, 4};
  const test::Vector<std::int32_t> sequence{0, 1, 1, 2};
  Matrix y(4, 3, 2);
  ops::outputs_of_samples(all, sample.data(), sequence.data(), y);
  CHECK(test::largest_difference(y, [&](auto i, auto j) {
          return all(sample[static_cast<std::size_t>(sequence[static_cast<std::size_t>(i)])], j);
        }) == 0);
  CHECK(y.padding_untouched());
}

TEST_CASE("a soft gradient is added, and losses are mixed") {
  const test::DataType type = a_type();
  test::StoredMatrix d = test::StoredMatrix::random(type, 3, 4, 1, 1.0f, 8);
  const test::StoredMatrix before = d;
  const Matrix gradient = Matrix::random(3, 4, 2, 1.0f, 0);
  ops::add_soft_gradient(0.5f, gradient.tensor(), d);
  // One rounding to the type, of a number below 8.
  const double rounding = 8 * core::unit_roundoff(type) + 1e-6;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) CHECK(std::abs(d(i, j) - (before(i, j) + 0.5 * gradient(i, j))) <= rounding);
  }
  CHECK(d.padding_untouched());
  test::Vector<float> loss{1.0f, 2.0f};
  const test::Vector<float> soft{5.0f, 0.0f};
  ops::mix_losses(0.25f, soft.data(), 2, loss.data());
  CHECK(loss[0] == 2.0f);
  CHECK(loss[1] == 1.5f);
}
