#include "bert_hpc/ops/weighted_cross_entropy.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

#include "bert_hpc/ops/losses.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

struct Case {
  bool weighted;
  double smoothing, gamma;
};

double weight_of(const Case& one, std::int64_t j) {
  return one.weighted ? 0.25 * static_cast<double>(j % 5) : 1.0;
}

/// The definition in the header, in double precision.
double plain_loss(const std::vector<double>& x, std::int64_t label, const Case& one) {
  double total = 0, loss = 0;
  for (const double value : x) total += std::exp(value);
  const auto classes = static_cast<double>(x.size());
  for (std::size_t c = 0; c < x.size(); ++c) {
    const double p = std::exp(x[c]) / total;
    const double target = (static_cast<std::int64_t>(c) == label ? 1 - one.smoothing : 0.0) + one.smoothing / classes;
    loss -= weight_of(one, static_cast<std::int64_t>(c)) * target * std::pow(1 - p, one.gamma) * std::log(p);
  }
  return loss;
}

std::vector<double> row_of(const Matrix& logits, std::int64_t i, std::int64_t columns) {
  std::vector<double> row;
  for (std::int64_t j = 0; j < columns; ++j) row.push_back(logits(i, j));
  return row;
}

}  // namespace

TEST_CASE("weighted cross entropy against a plain loop, and its gradient against finite differences") {
  const Case cases[] = {{true, 0, 0}, {false, 0.1, 0}, {true, 0.3, 0}, {false, 0, 2}, {true, 0, 0.5}, {true, 0.2, 1.5}};
  for (const Case& one : cases) {
    for (const std::int64_t classes : {2, 3, 33, 300}) {
      INFO(one.weighted << ' ' << one.smoothing << ' ' << one.gamma << ", classes " << classes);
      const std::int64_t rows = 7;
      const Matrix logits = Matrix::random(rows, classes, 1, 3.0f, 2);
      test::Vector<float> weights;
      test::Vector<std::int32_t> labels;
      for (std::int64_t j = 0; j < classes; ++j) weights.push_back(static_cast<float>(weight_of(one, j)));
      for (std::int64_t i = 0; i < rows; ++i) labels.push_back(static_cast<std::int32_t>(i * 11 % classes));
      const ops::CrossEntropyOptions options = {.class_weights = one.weighted ? weights.data() : nullptr,
                                                .label_smoothing = static_cast<float>(one.smoothing),
                                                .focal_gamma = static_cast<float>(one.gamma)};
      Matrix loss(1, rows), d_logits(rows, classes, 1);
      const float scale = 0.125f;
      ops::weighted_cross_entropy(logits, labels.data(), options, scale, loss.values.data(), d_logits);
      // Targets add up to at most 1, log p is below 20: a few roundings of 2⁻²⁴ · 20 = 1.2e-6 each.
      CHECK(test::largest_difference(loss, [&](auto, auto i) {
              return plain_loss(row_of(logits, i, classes), labels[static_cast<std::size_t>(i)], one);
            }) < 1e-5);
      // Differences of a step h have an error of h² / 6 of the third derivative: below 1e-8. The gradient is a
      // difference of terms below (1 + γ · 1) · 1 with relative errors of a few times the 1.2e-6 of log p: 1e-5.
      constexpr double h = 1e-4;
      CHECK(test::largest_difference(d_logits, [&](auto i, auto j) {
              std::vector<double> up = row_of(logits, i, classes), down = up;
              up[static_cast<std::size_t>(j)] += h;
              down[static_cast<std::size_t>(j)] -= h;
              const std::int64_t label = labels[static_cast<std::size_t>(i)];
              return scale * (plain_loss(up, label, one) - plain_loss(down, label, one)) / (2 * h);
            }) < 1e-5 * scale);
      CHECK(d_logits.padding_untouched());
      Matrix again(1, rows), in_place(logits);
      ops::weighted_cross_entropy(in_place, labels.data(), options, scale, again.values.data(), in_place);
      CHECK(again.values == loss.values);
      CHECK(test::bits_of(in_place) == test::bits_of(d_logits));
      ops::weighted_cross_entropy(logits, labels.data(), options, scale, again.values.data(), core::Tensor<float>());
      CHECK(again.values == loss.values);
    }
  }
}

TEST_CASE("weighted cross entropy with weights of 1 is the cross entropy") {
  const std::int64_t rows = 5, classes = 4;
  const Matrix logits = Matrix::random(rows, classes, 1, 3.0f, 2);
  const test::Vector<float> weights(4, 1.0f);
  const test::Vector<std::int32_t> labels = {0, 3, 1, 2, 3};
  Matrix loss(1, rows), plain(1, rows), d_logits(rows, classes), d_plain(rows, classes);
  ops::weighted_cross_entropy(logits, labels.data(), {.class_weights = weights.data()}, 0.5f, loss.values.data(),
                              d_logits);
  ops::cross_entropy(logits, labels.data(), 0.5f, plain.values.data(), d_plain);
  CHECK(test::largest_difference(loss, [&](auto, auto i) { return plain(0, i); }) < 1e-5);
  CHECK(test::largest_difference(d_logits, [&](auto i, auto j) { return d_plain(i, j); }) < 5e-6);
}

TEST_CASE("weighted cross entropy of certain predictions is finite, and of logits that are not finite it is not") {
  Matrix logits(2, 2), loss(1, 2), d_logits(2, 2);
  const float values[4] = {200, -200, 200, -200};
  std::copy(values, values + 4, logits.values.begin());
  const test::Vector<std::int32_t> labels = {0, 1};
  for (const float gamma : {0.5f, 1.0f, 2.0f}) {
    ops::weighted_cross_entropy(logits, labels.data(), {.focal_gamma = gamma}, 1.0f, loss.values.data(), d_logits);
    CHECK(loss.values == test::Vector<float>{0, 400});
    CHECK(d_logits.values == test::Vector<float>{0, 0, 1, -1});
  }
  logits(0, 1) = std::nanf("");
  ops::weighted_cross_entropy(logits, labels.data(), {.focal_gamma = 2.0f}, 1.0f, loss.values.data(), d_logits);
  CHECK(std::isnan(loss(0, 0)));
}
