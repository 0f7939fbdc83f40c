#include "bert_hpc/ops/cosine_similarity_loss.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

constexpr std::int64_t count = 5, columns = 13;

double plain_loss(const Matrix& x, std::int64_t pair, double score, std::int64_t row = -1, std::int64_t column = 0,
                  double step = 0) {
  double aa = 0, bb = 0, ab = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    const auto at = [&](std::int64_t i) { return x(i, j) + (i == row && j == column ? step : 0.0); };
    const double a = at(2 * pair), b = at(2 * pair + 1);
    aa += a * a;
    bb += b * b;
    ab += a * b;
  }
  const double error = ab / std::sqrt(aa * bb) - score;
  return error * error;
}

}  // namespace

TEST_CASE("the loss of scored pairs against a plain loop, its gradient against finite differences, in place") {
  Matrix x = Matrix::random(2 * count, columns, 5, 2.0f), loss(1, 2 * count);
  const Matrix first = x;
  test::Vector<float> texts;
  test::Vector<std::int32_t> pairs;
  for (std::int64_t p = 0; p < count; ++p) {
    const float score = 0.2f * static_cast<float>(p);
    for (const float value : {0.0f, score, 1.0f, score}) texts.push_back(value);
    pairs.push_back(static_cast<std::int32_t>(2 * p));
    pairs.push_back(static_cast<std::int32_t>(2 * p + 2));
  }
  const auto score = [&](std::int64_t pair) { return texts[static_cast<std::size_t>(4 * pair + 1)]; };
  constexpr float scale = 0.5f;
  ops::cosine_similarity_loss(x, pairs.data(), count, texts.data(), scale, loss.values.data(), {});
  // A cosine and its error are rounded to some 2⁻²³.
  const auto of_row = [&](auto, auto r) { return r % 2 == 0 ? plain_loss(first, r / 2, score(r / 2)) : 0.0; };
  CHECK(test::largest_difference(loss, of_row) < 1e-6);
  ops::cosine_similarity_loss(x, pairs.data(), count, texts.data(), scale, loss.values.data(), x);
  CHECK(test::largest_difference(loss, of_row) < 1e-6);
  constexpr double h = 1e-5;  // with an error of h² of third derivatives and of 1e-16 / h
  CHECK(test::largest_difference(x, [&](auto row, auto column) {
          const std::int64_t pair = row / 2;
          const double more = plain_loss(first, pair, score(pair), row, column, h);
          return scale * (more - plain_loss(first, pair, score(pair), row, column, -h)) / (2 * h);
        }) < 1e-6);
}
