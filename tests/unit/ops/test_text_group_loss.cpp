#include "bert_hpc/ops/text_group_loss.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <vector>

#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using ops::Similarity;
using ops::TextGroupLoss;
using test::Matrix;
using Kind = TextGroupLoss::Kind;

namespace {

constexpr std::int64_t columns = 13;

/// Texts of groups of these sizes, with a score each.
struct Groups {
  explicit Groups(const std::vector<int>& sizes) {
    for (std::size_t g = 0; g < sizes.size(); ++g) {
      ends.push_back(static_cast<std::int32_t>(values.size() / 4));
      for (int index = 0; index < sizes[g]; ++index) {
        values.push_back(static_cast<float>(index));
        values.push_back(0.3f * static_cast<float>(g) - 0.4f);
        for (int part = 0; part < 2; ++part) values.push_back(0);  // of a hash
      }
      ends.push_back(static_cast<std::int32_t>(values.size() / 4));
    }
  }
  std::int64_t count() const { return static_cast<std::int64_t>(ends.size()) / 2; }
  std::int64_t texts() const { return static_cast<std::int64_t>(values.size()) / 4; }

  test::Vector<std::int32_t> ends;
  test::Vector<float> values;
};

/// The loss of a group, in double precision. `step` is added to element (row, column).
struct Plain {
  const Matrix& x;
  const Groups& groups;
  const TextGroupLoss& loss;
  std::int64_t row = -1, column = 0;
  double step = 0;

  double similarity(std::int64_t a, std::int64_t b, std::int64_t first_columns) const {
    double aa = 0, bb = 0, ab = 0, squares = 0;
    for (std::int64_t j = 0; j < first_columns; ++j) {
      const auto at = [&](std::int64_t i) { return x(i, j) + (i == row && j == column ? step : 0.0); };
      aa += at(a) * at(a);
      bb += at(b) * at(b);
      ab += at(a) * at(b);
      squares += (at(a) - at(b)) * (at(a) - at(b));
    }
    if (loss.similarity == Similarity::dot) return ab;
    return loss.similarity == Similarity::cosine ? ab / std::sqrt(aa * bb) : -std::sqrt(squares);
  }
  double of_columns(std::int64_t group, std::int64_t first_columns) const {
    const auto g = static_cast<std::size_t>(2 * group);
    const std::int64_t anchor = groups.ends[g], end = groups.ends[g + 1];
    const double score = groups.values[static_cast<std::size_t>(4 * anchor + 1)];
    const double near = similarity(anchor, anchor + 1, first_columns);
    if (loss.kind == Kind::score) return (near - score) * (near - score);
    double sum = 0;
    for (std::int64_t text = anchor + 2; text < end; ++text) {
      const double far = similarity(anchor, text, first_columns);
      sum += loss.kind == Kind::triplet ? std::max(0.0, far - near + loss.margin) : std::pow(near - far - score, 2);
    }
    return sum / static_cast<double>(end - anchor - 2);
  }
  double of_group(std::int64_t group) const {
    double sum = 0;
    for (const std::int64_t dimensions : loss.dimensions) sum += of_columns(group, dimensions);
    return loss.dimensions.empty() ? of_columns(group, columns) : sum;
  }
  /// Loss of the group whose anchor row r is, 0 for other texts.
  double of_text(std::int64_t r) const {
    for (std::int64_t group = 0; group < groups.count(); ++group) {
      if (groups.ends[static_cast<std::size_t>(2 * group)] == r) return of_group(group);
    }
    return 0;
  }
  double total() const {
    double sum = 0;
    for (std::int64_t group = 0; group < groups.count(); ++group) sum += of_group(group);
    return sum;
  }
};

}  // namespace

TEST_CASE("losses of groups of texts against a plain loop, their gradients against finite differences, in place") {
  const Kind kind = GENERATE(Kind::score, Kind::triplet, Kind::margin);
  const TextGroupLoss loss{.kind = kind,
                           .similarity = GENERATE(Similarity::cosine, Similarity::dot, Similarity::euclidean),
                           .margin = 0.4f,
                           .dimensions = GENERATE(std::vector<std::int64_t>{}, std::vector<std::int64_t>{12, 7, 2})};
  CAPTURE(static_cast<int>(kind), static_cast<int>(loss.similarity), loss.dimensions.size());
  const Groups groups(kind == Kind::score ? std::vector{2, 2, 2, 2} : std::vector{3, 5, 3, 4});
  Matrix x = Matrix::random(groups.texts(), columns, 5, 2.0f), row_losses(1, groups.texts()),
         scratch(groups.texts(), 2);
  const Matrix first = x;
  const Plain plain{first, groups, loss};
  constexpr float scale = 0.5f;
  const auto compute = [&](core::Tensor<float> gradient) {
    ops::text_group_loss(x, groups.ends.data(), groups.count(), groups.values.data(), loss, scale,
                         scratch.values.data(), row_losses.values.data(), gradient);
  };
  compute({});
  // Dot products and distances of 13 numbers up to 2 are rounded to 2⁻²⁰, and a square of an error up to 30 to 60 times
  // that. Cosines are rounded to some 2⁻²³.
  const bool has_large_errors = loss.similarity != Similarity::cosine && kind != Kind::triplet;
  const double tolerance = has_large_errors ? 2e-4 : 1e-5;
  CHECK(test::largest_difference(row_losses, [&](auto, auto r) { return plain.of_text(r); }) < tolerance);
  CHECK(x.values == first.values);
  compute(x);
  CHECK(test::largest_difference(row_losses, [&](auto, auto r) { return plain.of_text(r); }) < tolerance);
  // Differences of a step h have an error of h² of third derivatives and of 1e-14 / h. No triplet is within h of 0.
  constexpr double h = 1e-5;
  CHECK(test::largest_difference(x, [&](auto row, auto column) {
          Plain more = plain, less = plain;
          more.row = less.row = row;
          more.column = less.column = column;
          more.step = h;
          less.step = -h;
          return scale * (more.total() - less.total()) / (2 * h);
        }) < tolerance);
}

TEST_CASE("losses of triplets that are far enough apart, of equal texts and of broken ones") {
  const Groups groups({3, 3});
  Matrix x = Matrix::random(6, columns, 3), gradient(6, columns), row_losses(1, 6), scratch(6, 2);
  TextGroupLoss loss{.kind = Kind::triplet, .similarity = Similarity::euclidean, .margin = 0.25f};
  const auto compute = [&] {
    ops::text_group_loss(x, groups.ends.data(), groups.count(), groups.values.data(), loss, 1.0f, scratch.values.data(),
                         row_losses.values.data(), gradient);
  };
  for (std::int64_t j = 0; j < columns; ++j) {
    x(1, j) = x(0, j);
    x(2, j) = x(0, j) + 1;  // a negative in a distance of √13
    x(4, j) = x(5, j) = x(3, j);
  }
  compute();
  CHECK(row_losses(0, 0) == 0);
  CHECK(row_losses(0, 3) == 0.25f);
  CHECK(std::all_of(gradient.values.begin(), gradient.values.end(), [](float value) { return value == 0; }));
  loss.similarity = Similarity::cosine;
  for (std::int64_t j = 0; j < columns; ++j) x(0, j) = 0;  // no direction
  compute();
  CHECK(row_losses(0, 0) == 0.25f);
  CHECK(std::isfinite(gradient(1, 1)));
  x(5, 3) = std::nanf("");
  compute();
  CHECK(row_losses(0, 0) == 0.25f);
  CHECK(std::isnan(row_losses(0, 3)));
}
