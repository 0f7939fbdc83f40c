#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "bert_hpc/ops/losses.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

TEST_CASE("cross entropy and its gradient") {
  for (const std::int64_t classes : {1, 2, 33, 1000}) {
    const std::int64_t rows = 7;
    Matrix logits = Matrix::random(rows, classes, 1, 3.0f, 2);
    logits(0, 0) += 200.0f;  // exp(200) is infinite in float: the maximum must be taken off
    test::Vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < rows; ++i) labels.push_back(static_cast<std::int32_t>((i * 5 + 1) % classes));
    Matrix loss(1, rows), d_logits(rows, classes, 1);
    const float scale = 0.125f;
    ops::cross_entropy(logits, labels.data(), scale, loss.values.data(), d_logits);
    const auto log_sum = [&](std::int64_t i) {
      double largest = logits(i, 0), total = 0.0;
      for (std::int64_t j = 0; j < classes; ++j) largest = std::max(largest, static_cast<double>(logits(i, j)));
      for (std::int64_t j = 0; j < classes; ++j) total += std::exp(logits(i, j) - largest);
      return largest + std::log(total);
    };
    // Losses up to 210, where one rounding of a difference is 8e-6.
    CHECK(test::largest_difference(
              loss, [&](auto, auto i) { return log_sum(i) - logits(i, labels[static_cast<std::size_t>(i)]); }) < 2e-5);
    // Probabilities below 1 with the roundings of an exponent below 20: 20·2⁻²⁴·scale and the sum's.
    CHECK(test::largest_difference(d_logits, [&](auto i, auto j) {
            return scale * (std::exp(logits(i, j) - log_sum(i)) - (labels[static_cast<std::size_t>(i)] == j));
          }) < 1e-6);
    CHECK(d_logits.padding_untouched());
    Matrix again(1, rows), in_place(logits);
    ops::cross_entropy(in_place, labels.data(), scale, again.values.data(), in_place);
    CHECK(again.values == loss.values);
    CHECK(test::bits_of(in_place) == test::bits_of(d_logits));
    ops::cross_entropy(logits, labels.data(), scale, again.values.data(), core::Tensor<float>());
    CHECK(again.values == loss.values);
  }
}

TEST_CASE("cross entropy and the largest logit of classes that are shared out") {
  constexpr std::int64_t rows = 9, classes = 101;
  constexpr int ranks = 4;
  Matrix logits = Matrix::random(rows, classes, 1, 3.0f, 2);
  logits(0, 50) += 200.0f;
  logits(3, 7) = logits(3, 90) = 40.0f;  // equal, on different ranks
  test::Vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < rows; ++i) labels.push_back(static_cast<std::int32_t>((i * 37 + 1) % classes));
  const float scale = 0.125f;
  Matrix loss(1, rows), d_logits(rows, classes, 2), shared(logits);
  ops::cross_entropy(logits, labels.data(), scale, loss.values.data(), d_logits);
  test::Vector<std::int32_t> expected(rows), predicted(rows);
  ops::arg_max(logits, expected.data());

  const auto begin = [](int rank) { return classes * rank / ranks; };
  const auto shard = [&](int rank) { return shared.tensor().column_range(begin(rank), begin(rank + 1) - begin(rank)); };
  // What the ranks' all-reduces do.
  test::Vector<float> largest(rows, -INFINITY), part(rows), index(rows, INFINITY);
  Matrix totals(2, rows), part_totals(2, rows);
  std::fill(totals.values.begin(), totals.values.end(), 0.0f);
  for (int rank = 0; rank < ranks; ++rank) {
    ops::class_shard_maxima(shard(rank), part.data());
    for (std::size_t i = 0; i < rows; ++i) largest[i] = std::max(largest[i], part[i]);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    ops::class_shard_arg_max(shard(rank), begin(rank), largest.data(), part.data());
    for (std::size_t i = 0; i < rows; ++i) index[i] = std::min(index[i], part[i]);
  }
  ops::to_integers(index.data(), rows, predicted.data());
  CHECK(predicted == expected);
  CHECK(predicted[3] == 7);
  for (const bool with_gradient : {false, true}) {
    std::fill(totals.values.begin(), totals.values.end(), 0.0f);
    for (int rank = 0; rank < ranks; ++rank) {
      ops::class_shard_totals(shard(rank), begin(rank), labels.data(), largest.data(), part_totals,
                              with_gradient ? shard(rank) : core::Tensor<float>());
      for (std::size_t i = 0; i < totals.values.size(); ++i) totals.values[i] += part_totals.values[i];
    }
    Matrix row_loss(1, rows);
    for (int rank = 0; rank < ranks; ++rank) {
      ops::class_shard_cross_entropy(begin(rank), labels.data(), scale, totals, row_loss.values.data(),
                                     with_gradient ? shard(rank) : core::Tensor<float>());
    }
    // Sums of 101 terms in another order: 101·2⁻²⁴ of them, and losses up to 210 with a rounding of 8e-6.
    CHECK(test::largest_difference(row_loss, [&](auto, auto i) { return loss(0, i); }) < 2e-5);
  }
  CHECK(test::largest_difference(shared, [&](auto i, auto j) { return d_logits(i, j); }) < 101 * 6e-8 * scale);
  CHECK(shared.padding_untouched());
}

TEST_CASE("squared error and its gradient") {
  const Matrix logits = Matrix::random(5000, 1, 1, 1.0f, 2), targets = Matrix::random(1, 5000, 2);
  Matrix loss(1, 5000), d_logits(5000, 1);
  ops::squared_error(logits, targets.values.data(), 0.5f, loss.values.data(), d_logits);
  bool equal = true;
  for (std::int64_t i = 0; i < 5000; ++i) {
    const float difference = logits(i, 0) - targets(0, i);
    equal = equal && loss(0, i) == difference * difference && d_logits(i, 0) == difference;
  }
  CHECK(equal);
  ops::squared_error(logits, targets.values.data(), 0.5f, loss.values.data(), core::Tensor<float>());
}

TEST_CASE(
    "squared error of several columns against a plain loop, without unknown targets, and its finite differences") {
  constexpr std::int64_t rows = 3000, columns = 7;
  const Matrix logits = Matrix::random(rows, columns, 2, 1.0f, 2);
  Matrix targets = Matrix::random(rows, columns, 2), loss(1, rows), d_logits(rows, columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      if (i % 5 != 0 && (3 * i + j) % 4 == 0) targets(i, j) = std::numeric_limits<float>::quiet_NaN();
    }
  }
  const auto plain = [&](std::int64_t i, std::int64_t shifted, double shift) {
    double sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      const double error = logits(i, j) + (j == shifted ? shift : 0) - targets(i, j);
      if (!std::isnan(targets(i, j))) sum += error * error;
    }
    return sum;
  };
  const float scale = 0.5f;
  ops::squared_error(logits, targets.values.data(), scale, loss.values.data(), d_logits);
  // Errors of at most 4, squares of 16 and a sum of 7 of them, each rounded to 2⁻²⁴ of itself.
  CHECK(test::largest_difference(loss, [&](auto, auto i) { return plain(i, 0, 0); }) < 16 * 7 * 9 * 6e-8);
  // The loss is a parabola, so that central differences have no error but that of rounding, 1e-13 / h.
  constexpr double h = 1e-3;
  CHECK(test::largest_difference(d_logits, [&](auto i, auto j) {
          return scale * (plain(i, j, h) - plain(i, j, -h)) / (2 * h);
        }) < 8 * 3 * 6e-8);
  Matrix in_place = logits, again(1, rows);
  ops::squared_error(in_place, targets.values.data(), scale, again.values.data(), in_place);
  CHECK(again.values == loss.values);
  CHECK(test::largest_difference(in_place, [&](auto i, auto j) { return d_logits(i, j); }) == 0);
}

TEST_CASE("squared error of a sigmoid against its definition, and its gradient against finite differences") {
  constexpr std::int64_t rows = 5000;
  const Matrix logits = Matrix::random(rows, 1, 1, 4.0f, 2), noise = Matrix::random(1, rows, 2);
  Matrix targets(1, rows), loss(1, rows), d_logits(rows, 1);
  for (std::int64_t i = 0; i < rows; ++i) targets(0, i) = std::clamp(0.5f + noise(0, i), 0.0f, 1.0f);
  const auto plain = [&](std::int64_t i, double shift) {
    const double error = 1 / (1 + std::exp(-(logits(i, 0) + shift))) - targets(0, i);
    return error * error;
  };
  const float scale = 0.5f;
  ops::sigmoid_squared_error(logits, targets.values.data(), scale, loss.values.data(), d_logits);
  // A difference of at most 1 with a few roundings of 2⁻²⁴, twice that in its square.
  CHECK(test::largest_difference(loss, [&](auto, auto i) { return plain(i, 0); }) < 8e-7);
  // Central differences of step h: h² / 6 of the third derivative, below 0.5, is 1e-9; rounding 1e-16 / h is less.
  constexpr double h = 1e-4;
  CHECK(test::largest_difference(d_logits, [&](auto i, auto) {
          return scale * (plain(i, h) - plain(i, -h)) / (2 * h);
        }) < 5e-7 * scale);  // 2 · (1 − target) · 0.25 at most, with as few roundings
  Matrix again(1, rows);
  ops::sigmoid_squared_error(logits, targets.values.data(), scale, again.values.data(), core::Tensor<float>());
  CHECK(again.values == loss.values);
  Matrix far(2, 1), ends(1, 2), gradient(2, 1), far_loss(1, 2);
  far(0, 0) = 200;
  far(1, 0) = -200;
  ends(0, 0) = 0.25f;
  ends(0, 1) = 1;
  ops::sigmoid_squared_error(far, ends.values.data(), 1.0f, far_loss.values.data(), gradient);
  CHECK(far_loss.values == test::Vector<float>{0.5625f, 1});
  CHECK(gradient.values == test::Vector<float>{0, 0});
}

TEST_CASE("the largest probability is that of softmax") {
  constexpr std::int64_t rows = 5, columns = 37;
  Matrix x(rows, columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) x(i, j) = 0.25f * static_cast<float>(i * ((7 * j) % 23 - 9));
  }
  x(3, 20) = 90.0f;
  x(4, 5) = std::numeric_limits<float>::quiet_NaN();
  test::Vector<float> found(rows);
  ops::largest_probability(x, found.data());
  for (std::int64_t i = 0; i < 4; ++i) {
    double largest = x(i, 0), total = 0;
    for (std::int64_t j = 0; j < columns; ++j) largest = std::max<double>(largest, x(i, j));
    for (std::int64_t j = 0; j < columns; ++j) total += std::exp(x(i, j) - largest);
    // 37 terms of 1 at most with a relative error of 4 units each, their sum and a quotient.
    CHECK(std::abs(found[static_cast<std::size_t>(i)] * total - 1) < 45 * 6e-8);
  }
  CHECK(found[3] == 1.0f);
  CHECK(std::isnan(found[4]));
}

TEST_CASE("arg_max takes the first among equals") {
  Matrix x(3, 4);
  const float values[12] = {1, 3, 3, 2, -5, -5, -5, -5, 0, 1, 2, 3};
  std::copy(values, values + 12, x.values.begin());
  test::Vector<std::int32_t> predicted(3, -1);
  ops::arg_max(x, predicted.data());
  CHECK(predicted == test::Vector<std::int32_t>{1, 0, 3});
}

TEST_CASE("sum is exact where double is") {
  test::Vector<float> x(1001, 0.1f);
  x[500] = 1e8f;
  double expected = 1e8;
  for (int i = 0; i < 1000; ++i) expected += static_cast<double>(0.1f);
  // 1,000 additions near 1e8 in double: 1000·1e8·2⁻⁵³.
  test::Vector<double> total(1, -1.0);
  ops::sum(x.data(), 1001, total.data());
  CHECK(std::abs(total[0] - expected) < 2e-5);
  ops::sum(nullptr, 0, total.data());
  CHECK(total[0] == 0.0);
}
