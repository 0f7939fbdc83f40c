// Loss between attention scores: against its definition in double, and its gradients against finite differences of
// that.
#include "bert_hpc/ops/attention_scores.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <vector>

#include "support/sample_tensors.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using test::Matrix;
using test::Rows;
using test::StoredMatrix;

namespace {

constexpr std::int64_t heads = 3;

/// Sequences of 1, 5 and 9 tokens.
struct Case {
  Case(test::DataType type, std::int64_t head_dim, std::int64_t teacher_dim, ops::AttentionMask of, bool is_padded)
      : qk(StoredMatrix::random(type, 15, 3 * heads * head_dim, 1)),
        teacher(StoredMatrix::random(type, 15, 2 * heads * teacher_dim, 2)),
        dim(head_dim),
        other_dim(teacher_dim),
        mask(of),
        padded(is_padded) {}

  ops::AttentionInputs inputs() const {
    return {.extents = {.sequences = 3, .heads = heads, .head_dim = dim, .max_length = 9},
            .queries = rows.view(),
            .keys = rows.view(),
            .dropout = {},
            .q = qk.view().column_range(0, heads * dim),
            .k = qk.view().column_range(heads * dim, heads * dim),
            .v = {},
            .mask = mask,
            .real_keys = padded ? lengths.data() : nullptr};
  }
  ops::ScorePair pair(const ops::AttentionInputs& in) const {
    return {in, teacher.view().column_range(0, heads * other_dim),
            teacher.view().column_range(heads * other_dim, heads * other_dim)};
  }

  /// Loss of a row and head for queries and keys `x` of the student, as in `qk`.
  double loss(const std::vector<double>& x, std::int64_t i, std::int64_t head) const {
    std::int64_t begin = i;
    while (begin > 0 && sequence(begin - 1) == sequence(i)) --begin;
    std::int64_t end = begin;
    while (end < 15 && sequence(end) == sequence(i)) ++end;
    if (padded) end = begin + lengths[static_cast<std::size_t>(sequence(i))];
    if (i >= end) return 0;
    begin = std::max(begin, i - mask.before);
    end = std::min(end, i + mask.after + 1);
    double sum = 0;
    for (std::int64_t j = begin; j < end; ++j) {
      double s = 0, t = 0;
      for (std::int64_t c = 0; c < dim; ++c) {
        s += at(x, i, head * dim + c) * at(x, j, (heads + head) * dim + c) / std::sqrt(static_cast<double>(dim));
      }
      for (std::int64_t c = 0; c < other_dim; ++c) {
        t += static_cast<double>(teacher(i, head * other_dim + c)) * teacher(j, (heads + head) * other_dim + c) /
             std::sqrt(static_cast<double>(other_dim));
      }
      sum += (s - t) * (s - t) / static_cast<double>(end - begin);
    }
    return sum;
  }
  double total(const std::vector<double>& x) const {
    double sum = 0;
    for (std::int64_t i = 0; i < 15; ++i) {
      for (std::int64_t head = 0; head < heads; ++head) sum += loss(x, i, head);
    }
    return sum;
  }
  double at(const std::vector<double>& x, std::int64_t i, std::int64_t column) const {
    return x[static_cast<std::size_t>(i * qk.columns() + column)];
  }
  std::int32_t sequence(std::int64_t i) const { return rows.sequence[static_cast<std::size_t>(i)]; }

  Rows rows{std::vector<int>{1, 5, 9}};
  test::Vector<std::int32_t> lengths{1, 3, 9};
  StoredMatrix qk, teacher;  // (tokens, 3 · width), as a joined projection leaves them; (tokens, 2 · width)
  std::int64_t dim, other_dim;
  ops::AttentionMask mask;
  bool padded;
};

}  // namespace

TEST_CASE("the loss of attention scores against double, and its gradients against finite differences") {
  const auto type = GENERATE(test::DataType::fp32, test::DataType::bf16, test::DataType::fp16);
  const std::int64_t head_dim = GENERATE(4, 33, 130);
  const std::int64_t teacher_dim = GENERATE(4, 40);
  const auto mask = GENERATE(ops::AttentionMask::full(), ops::AttentionMask::causal(), ops::AttentionMask::window(2));
  const bool padded = GENERATE(false, true);
  CAPTURE(head_dim, teacher_dim, padded);
  const Case c(type, head_dim, teacher_dim, mask, padded);
  const ops::AttentionInputs in = c.inputs();
  Matrix loss(heads, 15);
  ops::score_loss(c.pair(in), 0.5f, loss);
  StoredMatrix d = StoredMatrix::random(type, 15, 3 * heads * head_dim, 3);
  const StoredMatrix before = d;
  ops::add_score_gradient(c.pair(in), 0.25f, d.view().column_range(0, heads * head_dim),
                          d.view().column_range(heads * head_dim, heads * head_dim));
  const std::vector<float> floats = c.qk.floats();
  std::vector<double> x(floats.begin(), floats.end());
  // Scores are below 6 and sums of up to 130 products, each rounded by 2⁻²⁴: 1e-5 each, and twice their product in a
  // squared difference below 60.
  for (std::int64_t i = 0; i < 15; ++i) {
    for (std::int64_t head = 0; head < heads; ++head) {
      CHECK(std::abs(loss(head, i) - 0.5 * c.loss(x, i, head)) < 1e-4);
    }
  }
  // The gradient is rounded once to its type, with the number below 8 to which it is added.
  const double rounding = 8 * core::unit_roundoff(type) + 2e-5;
  for (std::int64_t i = 0; i < 15; i += 2) {
    for (std::int64_t column = 0; column < 3 * heads * head_dim; column += 7) {
      double& value = x[static_cast<std::size_t>(i * c.qk.columns() + column)];
      const double at = value;
      constexpr double h =
          1e-4;  // the loss is a polynomial of the second degree in each number: no error of the method
      value = at + h;
      const double above = c.total(x);
      value = at - h;
      const double slope = (above - c.total(x)) / (2 * h);
      value = at;
      CAPTURE(i, column);
      CHECK(std::abs(d(i, column) - (before(i, column) + 0.25 * slope)) < rounding);
    }
  }
}

TEST_CASE("equal attention scores have neither loss nor gradient") {
  const auto type = GENERATE(test::DataType::fp32, test::DataType::bf16);
  const auto mask = GENERATE(ops::AttentionMask::full(), ops::AttentionMask::causal(), ops::AttentionMask::window(2));
  Case c(type, 40, 40, mask, false);
  for (std::int64_t i = 0; i < 15; ++i) {
    for (std::int64_t j = 0; j < 2 * heads * 40; ++j) c.teacher.set(i, j, c.qk(i, j));
  }
  const ops::AttentionInputs in = c.inputs();
  Matrix loss(heads, 15);
  ops::score_loss(c.pair(in), 1.0f, loss);
  StoredMatrix d = StoredMatrix::random(type, 15, 3 * heads * 40, 3);
  const StoredMatrix before = d;
  ops::add_score_gradient(c.pair(in), 1.0f, d.view().column_range(0, heads * 40),
                          d.view().column_range(heads * 40, heads * 40));
  CHECK(d.same_bits(before));
  for (std::int64_t i = 0; i < 15; ++i) {
    for (std::int64_t head = 0; head < heads; ++head) CHECK(loss(head, i) == 0.0f);
  }
}
