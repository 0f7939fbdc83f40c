#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "bert_hpc/ops/layer_norm.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using test::Matrix;
using test::Rows;
using test::StoredMatrix;

namespace {

constexpr float epsilon = 1e-12f;

/// Doubles of one case, from the formulas.
struct Reference {
  Reference(std::int64_t rows, std::int64_t columns_)
      : columns(columns_),
        z(static_cast<std::size_t>(rows * columns_)),
        mean(static_cast<std::size_t>(rows)),
        rstd(mean) {}
  double& at(std::int64_t i, std::int64_t j) { return z[static_cast<std::size_t>(i * columns + j)]; }
  /// centered: of a layer norm, else of an RMS norm.
  void statistics(std::int64_t i, bool centered) {
    double sum = 0.0, squares = 0.0;
    for (std::int64_t j = 0; centered && j < columns; ++j) sum += at(i, j);
    sum /= static_cast<double>(columns);
    for (std::int64_t j = 0; j < columns; ++j) squares += (at(i, j) - sum) * (at(i, j) - sum);
    mean[static_cast<std::size_t>(i)] = sum;
    rstd[static_cast<std::size_t>(i)] = 1.0 / std::sqrt(squares / static_cast<double>(columns) + epsilon);
  }
  double normal(std::int64_t i, std::int64_t j) {
    return (at(i, j) - mean[static_cast<std::size_t>(i)]) * rstd[static_cast<std::size_t>(i)];
  }
  std::int64_t columns;
  std::vector<double> z, mean, rstd;
};

}  // namespace

TEST_CASE("residual layer norm and RMS norm, forward and backward") {
  const std::int64_t columns = GENERATE(2, 7, 128, 300, 768, 1024);
  // Rows of 768 and 1024 columns in chunks of 16 bytes have kernels of their own on GPUs.
  const bool in_chunks = GENERATE(false, true);
  if (in_chunks && columns < 768) return;
  const auto padding = [in_chunks](std::int64_t odd) { return in_chunks ? std::int64_t{4} : odd; };
  const bool with_bias = GENERATE(false, true), with_residual = GENERATE(false, true),
             with_dropout = GENERATE(false, true), centered = GENERATE(false, true);
  const Rows rows({3, 4, 1});
  const std::int64_t count = 8;
  const test::Vector<std::int64_t> samples{4, 9, 2};
  core::Dropout site;
  site.probability = with_dropout ? 0.25f : 0.0f;
  site.site = 3;
  site.sample = samples.data();
  ops::set_dropout_key(site, 5, 6);

  const Matrix x = Matrix::random(count, columns, 1), residual = Matrix::random(count, columns, 2, 1.0f, padding(3));
  const Matrix bias = Matrix::random(1, columns, 3), gamma = Matrix::random(1, columns, 4),
               beta = Matrix::random(1, columns, 5);
  Matrix z(x), y(count, columns, padding(1));
  test::Vector<float> means(8), rstd(8);
  float* const mean = centered ? means.data() : nullptr;
  ops::residual_layer_norm_forward(site, rows.view(), z, with_bias ? bias.values.data() : nullptr,
                                   with_residual ? residual.tensor() : core::Tensor<float>(), gamma.values.data(),
                                   beta.values.data(), epsilon, y, mean, rstd.data());

  // The mask from the dropout kernel itself.
  Matrix kept(count, columns);
  for (float& value : kept.values) value = 1.0f;
  ops::dropout(site, rows.view(), kept, kept);
  Reference reference(count, columns);
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      reference.at(i, j) = (static_cast<double>(x(i, j)) + (with_bias ? bias(0, j) : 0.0)) * kept(i, j) +
                           (with_residual ? residual(i, j) : 0.0);
    }
    reference.statistics(i, centered);
  }
  // |z| < 12, a few roundings.
  CHECK(test::largest_difference(z, [&](auto i, auto j) { return reference.at(i, j); }) < 4e-6);
  // rstd multiplies the roundings of z (with two columns it can be large): relative to its largest value.
  double steepest = 1.0;
  for (double value : reference.rstd) steepest = std::max(steepest, value);
  CHECK(test::largest_difference(y, [&](auto i, auto j) { return gamma(0, j) * reference.normal(i, j) + beta(0, j); }) <
        1e-5 * steepest);
  CHECK(y.padding_untouched());

  const Matrix d_y = Matrix::random(count, columns, 6, 1.0f, padding(2));
  Matrix d_z(count, columns, padding(1)), d_x(count, columns);
  ops::residual_layer_norm_backward(site, rows.view(), d_y, z, gamma.values.data(), mean, rstd.data(), d_z, d_x);
  const auto d_z_reference = [&](std::int64_t i, std::int64_t j) {
    double sum = 0.0, product = 0.0;
    for (std::int64_t c = 0; c < columns; ++c) {
      const double g = static_cast<double>(d_y(i, c)) * gamma(0, c);
      sum += g;
      product += g * reference.normal(i, c);
    }
    const double n = static_cast<double>(columns);
    return reference.rstd[static_cast<std::size_t>(i)] *
           (static_cast<double>(d_y(i, j)) * gamma(0, j) - (centered ? sum / n : 0.0) -
            reference.normal(i, j) * product / n);
  };
  CHECK(test::largest_difference(d_z, d_z_reference) < 4e-5 * steepest * steepest);
  if (with_dropout) {
    Matrix expected(count, columns);
    ops::dropout(site, rows.view(), d_z, expected);
    CHECK(test::bits_of(expected) == test::bits_of(d_x));
  }
  // The gradient that a residual stream adds: of z, and so of what is dropped.
  const Matrix more = Matrix::random(count, columns, 7, 1.0f, padding(3));
  Matrix d_stream(count, columns, padding(1)), d_dropped(count, columns);
  ops::residual_layer_norm_backward(site, rows.view(), d_y, z, gamma.values.data(), mean, rstd.data(), d_stream,
                                    d_dropped, more);
  CHECK(test::largest_difference(d_stream, [&](auto i, auto j) { return d_z_reference(i, j) + more(i, j); }) <
        4e-5 * steepest * steepest);
  Matrix expected_dropped(count, columns);
  ops::dropout(site, rows.view(), d_stream, expected_dropped);
  CHECK(test::bits_of(expected_dropped) == test::bits_of(d_dropped));
  Matrix in_place(d_y);
  ops::residual_layer_norm_backward(site, rows.view(), in_place, z, gamma.values.data(), mean, rstd.data(), in_place,
                                    core::Tensor<float>());
  CHECK(test::bits_of(in_place) == test::bits_of(d_z));

  Matrix d_gamma(1, columns), d_beta(1, columns);
  ops::layer_norm_backward_weight(d_y, z, mean, rstd.data(), d_gamma.values.data(), d_beta.values.data(),
                                  ops::Write::replace);
  const auto sum_over_rows = [&](std::int64_t j, bool of_gamma) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) sum += d_y(i, j) * (of_gamma ? reference.normal(i, j) : 1.0);
    return sum;
  };
  CHECK(test::largest_difference(d_gamma, [&](auto, auto j) { return sum_over_rows(j, true); }) < 4e-5 * steepest);
  CHECK(test::largest_difference(d_beta, [&](auto, auto j) { return sum_over_rows(j, false); }) < 1e-5);
  const Matrix once_gamma(d_gamma), once_beta(d_beta);
  ops::layer_norm_backward_weight(d_y, z, mean, rstd.data(), d_gamma.values.data(), d_beta.values.data(),
                                  ops::Write::accumulate);
  bool doubled = true;
  for (std::int64_t j = 0; j < columns; ++j) {
    doubled = doubled && d_gamma(0, j) == 2.0f * once_gamma(0, j) && d_beta(0, j) == 2.0f * once_beta(0, j);
  }
  CHECK(doubled);
  Matrix gamma_alone(1, columns), beta_alone(1, columns);
  ops::layer_norm_backward_weight(d_y, z, mean, rstd.data(), gamma_alone.values.data(), nullptr, ops::Write::replace);
  ops::layer_norm_backward_weight(d_y, z, mean, rstd.data(), nullptr, beta_alone.values.data(), ops::Write::replace);
  CHECK(test::bits_of(gamma_alone) == test::bits_of(once_gamma));
  CHECK(test::bits_of(beta_alone) == test::bits_of(once_beta));
}

TEST_CASE("layer norm of many rows has the bits of fewer at once") {
  // More rows than a GPU takes at once, so that a warp takes several.
  const std::int64_t columns = GENERATE(768, 1024), rows = 12000;
  const core::DataType type = GENERATE(core::DataType::fp32, core::DataType::bf16);
  const Rows tokens(std::vector<int>(static_cast<std::size_t>(rows / 40), 40));
  const test::Vector<std::int64_t> samples(static_cast<std::size_t>(rows / 40), 4);
  core::Dropout site;
  site.probability = 0.1f;
  site.site = 3;
  site.sample = samples.data();
  ops::set_dropout_key(site, 5, 6);
  const StoredMatrix x = StoredMatrix::random(type, rows, columns, 1),
                     residual = StoredMatrix::random(type, rows, columns, 2);
  const Matrix bias = Matrix::random(1, columns, 3), gamma = Matrix::random(1, columns, 4),
               beta = Matrix::random(1, columns, 5);
  const auto run = [&](const core::Matrix& z, const core::Matrix& y, test::Vector<float>& mean,
                       test::Vector<float>& rstd, std::int64_t step) {
    for (std::int64_t begin = 0; begin < rows; begin += step) {
      const core::TokenRows all = tokens.view();
      ops::residual_layer_norm_forward(
          site, {step, nullptr, all.sequence + begin, all.position + begin}, z.row_range(begin, step),
          bias.values.data(), core::ConstMatrix(residual).row_range(begin, step), gamma.values.data(),
          beta.values.data(), epsilon, y.row_range(begin, step), mean.data() + begin, rstd.data() + begin);
    }
    core::wait_for_kernels();
  };
  StoredMatrix z(x), y(type, rows, columns), few_z(x), few_y(type, rows, columns);
  test::Vector<float> mean(static_cast<std::size_t>(rows)), rstd(mean), few_mean(mean), few_rstd(mean);
  run(z, y, mean, rstd, rows);
  run(few_z, few_y, few_mean, few_rstd, 1000);
  CHECK((z.same_bits(few_z) && y.same_bits(few_y)));
  CHECK((mean == few_mean && rstd == few_rstd));
}

TEST_CASE("layer norm of no rows, and the weight gradient over many rows") {
  const Rows none(std::vector<int>{});
  Matrix empty(0, 16);
  ops::residual_layer_norm_forward(core::Dropout{}, none.view(), empty, nullptr, core::Tensor<float>(), nullptr,
                                   nullptr, epsilon, empty, nullptr, nullptr);
  test::Vector<float> d_gamma(16, 5.0f), d_beta(16, 5.0f);
  ops::layer_norm_backward_weight(empty, empty, nullptr, nullptr, d_gamma.data(), d_beta.data(), ops::Write::replace);
  CHECK(d_gamma == test::Vector<float>(16, 0.0f));
  CHECK(d_beta == test::Vector<float>(16, 0.0f));

  const Matrix d_y = Matrix::random(1000, 40, 1, 1.0f, 4), z = Matrix::random(1000, 40, 2);
  const test::Vector<float> mean(1000, 0.5f), rstd(1000, 2.0f);
  Matrix gamma(1, 40), beta(1, 40);
  ops::layer_norm_backward_weight(d_y, z, mean.data(), rstd.data(), gamma.values.data(), beta.values.data(),
                                  ops::Write::replace);
  // (64 + 16) additions of partial sums below 300.
  CHECK(test::largest_difference(gamma, [&](auto, auto j) {
          double sum = 0.0;
          for (std::int64_t i = 0; i < 1000; ++i) sum += d_y(i, j) * (static_cast<double>(z(i, j)) - 0.5) * 2.0;
          return sum;
        }) < 1e-3);
}
