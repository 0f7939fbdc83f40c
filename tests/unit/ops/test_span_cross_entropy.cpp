#include "bert_hpc/ops/span_cross_entropy.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

constexpr std::int64_t rows = 46;
const test::Vector<std::int32_t> offsets = {0, 1, 8, 40, 46};         // sequences of 1, 7, 32 and 6 tokens
const test::Vector<std::int32_t> spans = {0, 0, 2, 5, 31, 31, 0, 0};  // positions: first, last
constexpr std::int64_t sequences = 4;

/// The definition in the header, in double precision, for one end of one sequence.
double plain_loss(const std::vector<double>& x, std::int64_t target) {
  double total = 0;
  for (const double value : x) total += std::exp(value);
  return -0.5 * std::log(std::exp(x[static_cast<std::size_t>(target)]) / total);
}

std::vector<double> scores_of(const Matrix& logits, std::int64_t b, std::int64_t column) {
  std::vector<double> scores;
  for (std::int32_t i = offsets[static_cast<std::size_t>(b)]; i < offsets[static_cast<std::size_t>(b) + 1]; ++i) {
    scores.push_back(logits(i, column));
  }
  return scores;
}

std::int64_t sequence_of(std::int64_t row) {
  std::int64_t b = 0;
  while (offsets[static_cast<std::size_t>(b) + 1] <= row) ++b;
  return b;
}

std::int64_t target_of(std::int64_t b, std::int64_t column) {
  return spans[static_cast<std::size_t>(2 * b + column)];
}

}  // namespace

TEST_CASE("span cross entropy against a plain loop, and its gradient against finite differences") {
  const Matrix logits = Matrix::random(rows, 2, 1, 3.0f, 2);
  Matrix loss(1, rows), d_logits(rows, 2, 1);
  const float scale = 0.125f;
  ops::span_cross_entropy(logits, offsets.data(), nullptr, sequences, spans.data(), scale, loss.values.data(),
                          d_logits);
  // log p is below 20: a few roundings of 2⁻²⁴ · 20 = 1.2e-6 each.
  CHECK(test::largest_difference(loss, [&](auto, auto row) {
          const std::int64_t b = sequence_of(row), token = row - offsets[static_cast<std::size_t>(b)];
          double sum = 0;
          for (const std::int64_t column : {0, 1}) {
            if (token == target_of(b, column)) sum += plain_loss(scores_of(logits, b, column), token);
          }
          return sum;
        }) < 1e-5);
  // Differences of a step h have an error of h² / 6 of the third derivative: below 1e-8. A probability has a relative
  // error of a few times the 1.2e-6 of its exponent.
  constexpr double h = 1e-4;
  CHECK(test::largest_difference(d_logits, [&](auto row, auto column) {
          const std::int64_t b = sequence_of(row);
          std::vector<double> up = scores_of(logits, b, column), down = up;
          const auto token = static_cast<std::size_t>(row - offsets[static_cast<std::size_t>(b)]);
          up[token] += h;
          down[token] -= h;
          const std::int64_t target = target_of(b, column);
          return scale * (plain_loss(up, target) - plain_loss(down, target)) / (2 * h);
        }) < 1e-5 * scale);
  CHECK(d_logits.padding_untouched());
  Matrix again(1, rows), in_place(logits);
  ops::span_cross_entropy(in_place, offsets.data(), nullptr, sequences, spans.data(), scale, again.values.data(),
                          in_place);
  CHECK(again.values == loss.values);
  CHECK(test::bits_of(in_place) == test::bits_of(d_logits));
  ops::span_cross_entropy(logits, offsets.data(), nullptr, sequences, spans.data(), scale, again.values.data(),
                          core::Tensor<float>());
  CHECK(again.values == loss.values);
}

TEST_CASE("span cross entropy of padded sequences is that of their real tokens, without a gradient for padding") {
  constexpr std::int64_t padding = 3;
  const Matrix logits = Matrix::random(rows, 2, 1, 3.0f, 2);
  Matrix loss(1, rows), d_logits(rows, 2, 1);
  ops::span_cross_entropy(logits, offsets.data(), nullptr, sequences, spans.data(), 0.5f, loss.values.data(), d_logits);
  const std::int64_t padded_rows = rows + padding * sequences;
  Matrix padded(padded_rows, 2), padded_loss(1, padded_rows, 0), padded_gradient(padded_rows, 2);
  test::Vector<std::int32_t> padded_offsets{0}, lengths;
  const auto row_of = [&](std::int64_t b) { return offsets[static_cast<std::size_t>(b)] + padding * b; };
  for (std::int64_t b = 0; b < sequences; ++b) {
    lengths.push_back(offsets[static_cast<std::size_t>(b + 1)] - offsets[static_cast<std::size_t>(b)]);
    padded_offsets.push_back(static_cast<std::int32_t>(row_of(b) + lengths.back() + padding));
    for (std::int64_t i = 0; i < lengths.back() + padding; ++i) {
      for (const std::int64_t column : {0, 1}) {
        const bool real = i < lengths.back();
        padded(row_of(b) + i, column) = real ? logits(offsets[static_cast<std::size_t>(b)] + i, column) : 50.0f;
        padded_gradient(row_of(b) + i, column) = 7.0f;  // as memory that was used before
      }
      padded_loss(0, row_of(b) + i) = 7.0f;
    }
  }
  ops::span_cross_entropy(padded, padded_offsets.data(), lengths.data(), sequences, spans.data(), 0.5f,
                          padded_loss.values.data(), padded_gradient);
  for (std::int64_t b = 0; b < sequences; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    for (std::int64_t i = 0; i < length + padding; ++i) {
      const std::int64_t row = offsets[static_cast<std::size_t>(b)] + i;
      CHECK(padded_loss(0, row_of(b) + i) == (i < length ? loss(0, row) : 0.0f));
      for (const std::int64_t column : {0, 1}) {
        CHECK(padded_gradient(row_of(b) + i, column) == (i < length ? d_logits(row, column) : 0.0f));
      }
    }
  }
}

TEST_CASE("span cross entropy of logits that are not finite is not finite") {
  Matrix logits = Matrix::random(rows, 2, 1, 3.0f, 2), loss(1, rows);
  logits(20, 1) = std::nanf("");
  ops::span_cross_entropy(logits, offsets.data(), nullptr, sequences, spans.data(), 1.0f, loss.values.data(),
                          core::Tensor<float>());
  CHECK(std::isnan(loss(0, 39)));  // the last token of the third sequence
  CHECK(std::isfinite(loss(0, 3)));
}
