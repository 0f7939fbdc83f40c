#include "bert_hpc/ops/batch_triplet_loss.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using ops::BatchTriplets;
using ops::Similarity;
using test::Matrix;
using Kind = BatchTriplets::Kind;

namespace {

constexpr std::int64_t columns = 19;
constexpr float scale = 0.25f;

/// The losses of all anchors, in double precision. `step` is added to element (row, column).
struct Plain {
  const Matrix& x;
  const std::vector<int>& classes;
  BatchTriplets options;
  std::int64_t row = -1, column = 0;
  double step = 0;

  double distance(std::size_t a, std::size_t b) const {
    double aa = 0, bb = 0, ab = 0, squares = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto at = [&](std::size_t i) {
        const auto r = static_cast<std::int64_t>(i);
        return x(r, j) + (r == row && j == column ? step : 0.0);
      };
      aa += at(a) * at(a);
      bb += at(b) * at(b);
      ab += at(a) * at(b);
      squares += (at(a) - at(b)) * (at(a) - at(b));
    }
    return options.similarity == Similarity::cosine ? 1 - ab / std::sqrt(aa * bb) : std::sqrt(squares);
  }
  double excess(double near, double far) const {
    return std::max(near - far + static_cast<double>(options.margin), 0.0);
  }
  /// Distances to the other texts of the anchor's class, and to those of other classes.
  std::vector<double> distances(std::size_t anchor, bool same) const {
    std::vector<double> found;
    for (std::size_t j = 0; j < classes.size(); ++j) {
      if (j != anchor && (classes[j] == classes[anchor]) == same) found.push_back(distance(anchor, j));
    }
    return found;
  }
  /// Sum of the anchor's losses and their number in the mean.
  std::pair<double, double> sum(std::size_t anchor) const {
    const std::vector<double> near = distances(anchor, true), far = distances(anchor, false);
    double sum = 0, count = 0;
    if (options.kind == Kind::hard || options.kind == Kind::soft_margin) {
      if (far.empty()) return {0, 1};
      const double hardest = near.empty() ? 0 : *std::max_element(near.begin(), near.end());
      const double nearest = *std::min_element(far.begin(), far.end());
      return {options.kind == Kind::hard ? excess(hardest, nearest) : std::log(1 + std::exp(hardest - nearest)), 1};
    }
    for (const double p : near) {
      double chosen = std::numeric_limits<double>::infinity();
      for (const double n : far) {
        if (n > p) chosen = std::min(chosen, n);
        if (options.kind == Kind::all && excess(p, n) > 0) {
          sum += excess(p, n);
          count += 1;
        }
      }
      if (options.kind == Kind::all) continue;
      count += 1;
      if (far.empty()) continue;
      sum += excess(p, std::isinf(chosen) ? *std::max_element(far.begin(), far.end()) : chosen);
    }
    return {sum, count};
  }
  /// For each summand of the mean.
  double share() const {
    double count = 0;
    for (std::size_t r = 0; r < classes.size(); ++r) count += sum(r).second;
    return count > 0 ? static_cast<double>(classes.size()) / count : 0;
  }
  double total() const {
    double total = 0;
    for (std::size_t r = 0; r < classes.size(); ++r) total += sum(r).first;
    return share() * total;
  }
};

struct Computed {
  Computed(const Matrix& x, const std::vector<int>& of_rows, const BatchTriplets& options, std::int64_t begin,
           std::int64_t count)
      : loss(1, count), gradient(count, columns, 1) {
    const test::Vector<std::int32_t> classes(of_rows.begin(), of_rows.end());
    test::Vector<float> scratch(static_cast<std::size_t>(BatchTriplets::scratch(x.rows)));
    ops::batch_triplet_loss(x, classes.data(), options, begin, scale, scratch.data(), loss.values.data(), gradient);
  }
  Matrix loss, gradient;
};

}  // namespace

TEST_CASE("triplet losses of a batch against plain loops, their gradients against finite differences") {
  const Kind kind = GENERATE(Kind::hard, Kind::soft_margin, Kind::semi_hard, Kind::all);
  const Similarity similarity = GENERATE(Similarity::euclidean, Similarity::cosine);
  // Margins with which some triplets have a loss and others none. The last classes: a text without positives; one
  // class.
  const std::vector<int> classes =
      GENERATE(std::vector{2, 0, 1, 0, 2, 1, 1, 0, 2}, std::vector{0, 1, 1, 3, 0, 1, 0}, std::vector{4, 4, 4});
  const BatchTriplets options{
      .kind = kind, .similarity = similarity, .margin = similarity == Similarity::cosine ? 0.2f : 0.8f};
  CAPTURE(static_cast<int>(kind), static_cast<int>(similarity), classes.size());
  const auto rows = static_cast<std::int64_t>(classes.size());
  const Matrix x = Matrix::random(rows, columns, 7, 1.5f, 2);
  const Computed computed(x, classes, options, 0, rows);
  const Plain plain{x, classes, options};
  // A distance below 8 is rounded to 2⁻²¹; a row's loss is rows / summands times a sum of at most `summands`
  // differences of two: 9 · 2 · 5e-7.
  constexpr double tolerance = 1e-5;
  CHECK(test::largest_difference(computed.loss, [&](auto, auto r) {
          return plain.share() * plain.sum(static_cast<std::size_t>(r)).first;
        }) < tolerance);
  // Differences of a step h have an error of h² / 6 of the third derivative and of 1e-14 / h.
  constexpr double h = 1e-5;
  CHECK(test::largest_difference(computed.gradient, [&](auto row, auto column) {
          Plain more = plain, less = plain;
          more.row = less.row = row;
          more.column = less.column = column;
          more.step = h;
          less.step = -h;
          return scale * (more.total() - less.total()) / (2 * h);
        }) < tolerance);
  CHECK(computed.gradient.padding_untouched());

  // A part of the rows gets the same bits.
  const std::int64_t begin = 1, count = rows - 1;
  const Computed part(x, classes, options, begin, count);
  for (std::int64_t i = 0; i < count; ++i) {
    CHECK(part.loss(0, i) == computed.loss(0, begin + i));
    for (std::int64_t j = 0; j < columns; ++j) CHECK(part.gradient(i, j) == computed.gradient(begin + i, j));
  }
}

TEST_CASE("triplet losses of embeddings that are equal or not finite") {
  const Kind kind = GENERATE(Kind::hard, Kind::soft_margin, Kind::semi_hard, Kind::all);
  const Similarity similarity = GENERATE(Similarity::euclidean, Similarity::cosine);
  CAPTURE(static_cast<int>(kind), static_cast<int>(similarity));
  const std::vector<int> classes{0, 0, 1, 1};
  const BatchTriplets options{.kind = kind, .similarity = similarity, .margin = 0.5f};
  Matrix x(4, columns);
  std::fill(x.values.begin(), x.values.end(), 0.5f);
  const Computed equal(x, classes, options, 0, 4);
  const double expected = kind == Kind::soft_margin ? std::log(2.0) : 0.5;
  CHECK(test::largest_difference(equal.loss, [&](auto, auto) { return expected; }) < 1e-6);
  CHECK(test::largest_difference(equal.gradient, [](auto, auto) { return 0.0; }) < 1e-6);

  x(2, 3) = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(Computed(x, classes, options, 0, 4).loss(0, 2)));
}
