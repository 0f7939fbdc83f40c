#include "bert_hpc/ops/multiple_negatives_loss.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <vector>

#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

constexpr std::int64_t columns = 11;

/// Texts of groups of these sizes, as core::TextTargets. `names`: a number for each text, equal for equal texts; else
/// all differ.
test::Vector<float> texts_of(const std::vector<int>& groups, const std::vector<int>& names = {}) {
  test::Vector<float> texts;
  for (const int size : groups) {
    for (int index = 0; index < size; ++index) {
      const std::size_t number = texts.size() / 4;
      const auto name = static_cast<float>(names.empty() ? static_cast<int>(number) : names[number]);
      for (const float value : {static_cast<float>(index), 0.0f, 1.0f, name}) texts.push_back(value);
    }
  }
  return texts;
}

/// The losses of all rows, in double precision. `step` is added to element (row, column).
struct Plain {
  const Matrix& x;
  const test::Vector<float>& texts;
  ops::MultipleNegatives options;
  std::int64_t row = -1, column = 0;
  double step = 0;

  double at(std::int64_t i, std::int64_t j) const { return x(i, j) + (i == row && j == column ? step : 0.0); }
  double index(std::int64_t i) const { return texts[static_cast<std::size_t>(4 * i)]; }
  double name(std::int64_t i) const { return texts[static_cast<std::size_t>(4 * i + 3)]; }
  double logit(std::int64_t a, std::int64_t b) const {
    double aa = 0, bb = 0, ab = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      aa += at(a, j) * at(a, j);
      bb += at(b, j) * at(b, j);
      ab += at(a, j) * at(b, j);
    }
    return options.scale * ab / std::sqrt(aa * bb);
  }
  /// Whether the text in row c is a negative of the anchor in row a, or its positive.
  bool counts(std::int64_t a, std::int64_t c) const {
    if (!options.skips_duplicates || c == a + 1) return true;
    if (name(c) == name(a) || name(c) == name(a + 1)) return false;
    return index(c) != 1 || name(c - 1) != name(a);
  }
  /// Loss of the anchor in row r, or of the positive, over the other texts.
  double loss(std::int64_t r) const {
    const bool anchor = index(r) == 0;
    if (!anchor && (!options.symmetric || index(r) != 1)) return 0;
    double sum = 0;
    for (std::int64_t i = 0; i < x.rows; ++i) {
      if ((index(i) == 0) != anchor && counts(anchor ? r : i, anchor ? i : r)) sum += std::exp(logit(r, i));
    }
    const double loss = std::log(sum) - logit(r, anchor ? r + 1 : r - 1);
    return options.symmetric ? loss / 2 : loss;
  }
  double total() const {
    double sum = 0;
    for (std::int64_t r = 0; r < x.rows; ++r) sum += loss(r);
    return sum;
  }
};

Matrix zeros(std::int64_t rows, std::int64_t columns_of_it, std::int64_t padding = 0) {
  Matrix x(rows, columns_of_it, padding);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < columns_of_it; ++j) x(r, j) = 0;
  }
  return x;
}

}  // namespace

TEST_CASE("the loss of in-batch negatives against a plain loop, its gradient against finite differences") {
  const ops::MultipleNegatives options{
      .scale = GENERATE(1.0f, 20.0f), .symmetric = GENERATE(false, true), .skips_duplicates = GENERATE(false, true)};
  const std::vector<int> groups = GENERATE(std::vector{2, 2, 2, 2, 2}, std::vector{3, 2, 4, 3});
  CAPTURE(options.scale, options.symmetric, options.skips_duplicates, groups.size());
  // Rows 1 and 3 have one anchor, rows 2 and 4 one positive; a text of row 3 is the anchor of row 2.
  const std::vector<int> names =
      groups.size() == 5 ? std::vector{1, 2, 3, 4, 1, 3, 5, 4, 6, 7} : std::vector{1, 2, 9, 3, 4, 1, 5, 3, 10, 6, 4, 2};
  const test::Vector<float> texts = texts_of(groups, names);
  const auto rows = static_cast<std::int64_t>(texts.size()) / 4;
  const Matrix x = Matrix::random(rows, columns, 7, 1.5f, 2);
  Matrix loss = zeros(1, rows), gradient = zeros(rows, columns, 1), scratch(rows, 2);
  constexpr float scale = 0.25f;
  ops::multiple_negatives_loss(x, texts.data(), options, 0, scale, scratch.values.data(), loss.values.data(), gradient);
  const Plain plain{x, texts, options};
  // A cosine is rounded to some 2⁻²², which `scale` multiplies; a loss is a difference of two logits.
  const double tolerance = 1e-6 * options.scale;
  CHECK(test::largest_difference(loss, [&](auto, auto r) { return plain.loss(r); }) < tolerance);
  // Differences of a step h have an error of h² / 6 of the third derivative (below scale³) and of 1e-15 / h.
  constexpr double h = 1e-5;
  CHECK(test::largest_difference(gradient, [&](auto row, auto column) {
          Plain more = plain, less = plain;
          more.row = less.row = row;
          more.column = less.column = column;
          more.step = h;
          less.step = -h;
          return scale * (more.total() - less.total()) / (2 * h);
        }) < 2 * tolerance);
  CHECK(gradient.padding_untouched());
  const Matrix once_loss = loss, once = gradient;
  ops::multiple_negatives_loss(x, texts.data(), options, 0, scale, scratch.values.data(), loss.values.data(), gradient);
  CHECK(test::largest_difference(loss, [&](auto, auto r) { return 2 * once_loss(0, r); }) < 1e-5);
  CHECK(test::largest_difference(gradient, [&](auto r, auto j) { return 2 * once(r, j); }) < 1e-5);

  // A part of the rows gets the same bits.
  const std::int64_t begin = 3, count = 4;
  Matrix part = zeros(count, columns), part_loss = zeros(1, count);
  ops::multiple_negatives_loss(x, texts.data(), options, begin, scale, scratch.values.data(), part_loss.values.data(),
                               part);
  for (std::int64_t i = 0; i < count; ++i) {
    CHECK(part_loss(0, i) == once_loss(0, begin + i));
    for (std::int64_t j = 0; j < columns; ++j) CHECK(part(i, j) == once(begin + i, j));
  }
}

TEST_CASE("texts that equal an anchor or its positive, and positives of equal anchors, are no negatives") {
  const auto loss_of = [](const std::vector<int>& groups, const std::vector<int>& names, bool skips) {
    const test::Vector<float> texts = texts_of(groups, names);
    const auto rows = static_cast<std::int64_t>(names.size());
    const Matrix x = Matrix::random(rows, columns, 7);
    Matrix loss = zeros(1, rows), gradient = zeros(rows, columns), scratch(rows, 2);
    ops::multiple_negatives_loss(x, texts.data(), {.skips_duplicates = skips}, 0, 1.0f, scratch.values.data(),
                                 loss.values.data(), gradient);
    return loss(0, 0);
  };
  CHECK(loss_of({2, 2}, {1, 2, 1, 3}, true) == 0);  // two answers to one question
  CHECK(loss_of({2, 2}, {1, 2, 3, 2}, true) == 0);  // one answer to two questions
  CHECK(loss_of({2, 2}, {1, 2, 3, 1}, true) == 0);  // the text itself
  CHECK(loss_of({2, 2}, {1, 2, 3, 4}, true) > 0);
  CHECK(loss_of({2, 3}, {1, 2, 1, 3, 4}, true) > 0);  // a negative of an equal anchor is one
  CHECK(loss_of({2, 2}, {1, 2, 1, 3}, false) == loss_of({2, 2}, {1, 2, 3, 4}, true));
}

TEST_CASE("in-batch negatives of one pair, of equal embeddings, of zeros and of broken ones") {
  test::Vector<float> texts = texts_of({2});
  Matrix x = Matrix::random(2, columns, 3), loss(1, 2), gradient(2, columns), scratch(2, 2);
  const auto compute = [&] {
    for (Matrix* sums : {&loss, &gradient}) std::fill(sums->values.begin(), sums->values.end(), 0.0f);
    ops::multiple_negatives_loss(x, texts.data(), {}, 0, 1.0f, scratch.values.data(), loss.values.data(), gradient);
  };
  compute();
  CHECK(loss(0, 0) == 0);  // nothing to tell it from
  CHECK(gradient(0, 0) == 0);
  texts = texts_of({2, 2});
  x = Matrix(4, columns);
  loss = Matrix(1, 4);
  gradient = Matrix(4, columns);
  scratch = Matrix(4, 2);
  for (float& value : x.values) value = 2;
  compute();
  CHECK(std::abs(loss(0, 0) - std::log(2.0)) < 1e-6);
  for (float& value : x.values) value = 0;
  compute();
  CHECK(std::abs(loss(0, 2) - std::log(2.0)) < 1e-6);
  CHECK(std::isfinite(gradient(1, 1)));
  x(3, 3) = std::nanf("");
  compute();
  CHECK(std::isnan(loss(0, 0)));
}
