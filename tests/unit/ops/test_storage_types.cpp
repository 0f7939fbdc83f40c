// Kernels on 16-bit matrices against plain loops in double over the same numbers. A result is computed in float and
// rounded once: its error is u·|result|, u the type's unit roundoff (2⁻⁸ and 2⁻¹¹), 2⁻²⁵ where fp16 is subnormal, and
// beside it what the float computation may be off, as in the tests of the same kernels on floats.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <functional>
#include <numeric>

#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/embedding.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "support/host_batch.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using test::DataType;
using test::Matrix;
using test::Rows;
using test::StoredMatrix;

namespace {

using Expected = std::function<double(std::int64_t, std::int64_t)>;

/// Every element within `roundings` roundings of what is expected, and `absolute` beside.
void check(const StoredMatrix& result, const Expected& expected, double absolute, double roundings = 1.0) {
  std::int64_t wrong = 0;
  const double unit = roundings * core::unit_roundoff(result.view().type);
  for (std::int64_t i = 0; i < result.view().rows; ++i) {
    for (std::int64_t j = 0; j < result.view().columns; ++j) {
      const double e = expected(i, j);
      if (!(std::abs(result(i, j) - e) <= unit * std::abs(e) + absolute + 0x1p-25)) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(result.padding_untouched());
}

DataType a_type() {
  return GENERATE(DataType::bf16, DataType::fp16);
}

double gelu(double x) {
  return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}
double gelu_slope(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::acos(-1.0));
}

core::Dropout site_of(float probability, const test::Vector<std::int64_t>& samples) {
  core::Dropout site;
  site.probability = probability;
  site.site = 3;
  site.sample = samples.data();
  ops::set_dropout_key(site, 5, 6);
  return site;
}

}  // namespace

TEST_CASE("elementwise kernels on 16-bit matrices") {
  const DataType type = a_type();
  const std::int64_t rows = 37, columns = GENERATE(1, 33, 256);
  const StoredMatrix x = StoredMatrix::random(type, rows, columns, 1, 2.0f, 3);
  const StoredMatrix d_y = StoredMatrix::random(type, rows, columns, 2, 1.0f, 1);
  const Matrix bias = Matrix::random(1, columns, 3);
  StoredMatrix y(type, rows, columns, 2);

  ops::copy(x, y);
  check(y, x, 0.0, 0.0);
  ops::add_bias(y, bias.values.data());
  check(
      y, [&](auto i, auto j) { return static_cast<double>(x(i, j)) + bias(0, j); }, 1e-6);
  // The functions' own errors (ops/vector_math.hpp) are below 2⁻¹² of the result for x ≥ −6, and tiny farther out.
  const double roundings = 1.0 + 0x1p-12 / core::unit_roundoff(type);
  ops::gelu_forward(x, y);
  check(
      y, [&](auto i, auto j) { return gelu(x(i, j)); }, 1e-9, roundings);
  ops::gelu_backward(x, d_y, y);
  check(
      y, [&](auto i, auto j) { return d_y(i, j) * gelu_slope(x(i, j)); }, 1e-9, roundings);
  ops::tanh_forward(x, y);
  check(
      y, [&](auto i, auto j) { return std::tanh(x(i, j)); }, 1e-6);
  const StoredMatrix t = y;
  ops::tanh_backward(t, d_y, y);
  check(
      y, [&](auto i, auto j) { return d_y(i, j) * (1.0 - static_cast<double>(t(i, j)) * t(i, j)); }, 1e-6);

  // From one type to another.
  Matrix wide(rows, columns);
  ops::copy(x, wide);
  CHECK(test::largest_difference(wide, [&](auto i, auto j) { return x(i, j); }) == 0.0);
  const Matrix fine = Matrix::random(rows, columns, 4);
  ops::copy(fine, y);
  check(
      y, [&](auto i, auto j) { return test::rounded(type, fine(i, j)); }, 0.0, 0.0);

  // 37 additions in float of numbers below 10.
  test::Vector<float> sums(static_cast<std::size_t>(columns), 1.0f);
  ops::column_sums(x, sums.data(), ops::Write::accumulate);
  for (std::int64_t j = 0; j < columns; ++j) {
    double sum = 1.0;
    for (std::int64_t i = 0; i < rows; ++i) sum += x(i, j);
    CHECK(std::abs(sums[static_cast<std::size_t>(j)] - sum) < 1e-4);
  }

  const test::Vector<std::int32_t> selected{30, 2, 17};
  StoredMatrix few(type, 3, columns);
  ops::gather_rows(x, selected.data(), few);
  check(
      few, [&](auto i, auto j) { return x(selected[static_cast<std::size_t>(i)], j); }, 0.0, 0.0);
  StoredMatrix all = d_y;
  ops::scatter_add_rows(few, selected.data(), all);
  check(
      all,
      [&](auto i, auto j) {
        const bool chosen = i == 30 || i == 2 || i == 17;
        return static_cast<double>(d_y(i, j)) + (chosen ? x(i, j) : 0.0);
      },
      1e-6);
}

TEST_CASE("residual layer norm on 16-bit matrices") {
  const DataType type = a_type();
  const std::int64_t columns = GENERATE(7, 128, 300), count = 8;
  const bool with_dropout = GENERATE(false, true);
  const Rows rows({3, 4, 1});
  const test::Vector<std::int64_t> samples{4, 9, 2};
  const core::Dropout site = site_of(with_dropout ? 0.25f : 0.0f, samples);
  const StoredMatrix x = StoredMatrix::random(type, count, columns, 1);
  const StoredMatrix residual = StoredMatrix::random(type, count, columns, 2, 1.0f, 3);
  const Matrix bias = Matrix::random(1, columns, 3), gamma = Matrix::random(1, columns, 4),
               beta = Matrix::random(1, columns, 5);
  StoredMatrix z(x), y(type, count, columns, 1);
  test::Vector<float> mean(8), rstd(8);
  ops::residual_layer_norm_forward(site, rows.view(), z, bias.values.data(), residual, gamma.values.data(),
                                   beta.values.data(), 1e-12f, y, mean.data(), rstd.data());
  Matrix kept(count, columns);  // the mask, from the kernel on floats
  for (float& value : kept.values) value = 1.0f;
  ops::dropout(site, rows.view(), kept, kept);
  const auto z_exact = [&](std::int64_t i, std::int64_t j) {
    return (static_cast<double>(x(i, j)) + bias(0, j)) * kept(i, j) + residual(i, j);
  };
  check(z, z_exact, 4e-6);

  // From here on with z as it is stored, which is what the statistics are of.
  const auto statistic = [&](std::int64_t i) {
    double sum = 0.0, squares = 0.0;
    for (std::int64_t j = 0; j < columns; ++j) sum += z(i, j);
    sum /= static_cast<double>(columns);
    for (std::int64_t j = 0; j < columns; ++j) squares += (z(i, j) - sum) * (z(i, j) - sum);
    return std::pair(sum, 1.0 / std::sqrt(squares / static_cast<double>(columns) + 1e-12));
  };
  std::vector<std::pair<double, double>> statistics;
  for (std::int64_t i = 0; i < count; ++i) statistics.push_back(statistic(i));
  const auto normal = [&](std::int64_t i, std::int64_t j) {
    const auto [m, r] = statistics[static_cast<std::size_t>(i)];
    return (z(i, j) - m) * r;
  };
  check(
      y, [&](auto i, auto j) { return gamma(0, j) * normal(i, j) + beta(0, j); }, 4e-5);

  const StoredMatrix d_y = StoredMatrix::random(type, count, columns, 6, 1.0f, 2);
  const auto d_z_exact = [&](std::int64_t i, std::int64_t j) {
    double sum = 0.0, product = 0.0;
    for (std::int64_t c = 0; c < columns; ++c) {
      const double g = static_cast<double>(d_y(i, c)) * gamma(0, c);
      sum += g;
      product += g * normal(i, c);
    }
    const double n = static_cast<double>(columns);
    return statistics[static_cast<std::size_t>(i)].second *
           (static_cast<double>(d_y(i, j)) * gamma(0, j) - sum / n - normal(i, j) * product / n);
  };
  StoredMatrix d_z(type, count, columns, 1), d_x(type, count, columns);
  ops::residual_layer_norm_backward(site, rows.view(), d_y, z, gamma.values.data(), mean.data(), rstd.data(), d_z, d_x);
  check(d_z, d_z_exact, 4e-4);  // rstd up to about 3 with seven columns, squared
  check(
      d_x, [&](auto i, auto j) { return static_cast<double>(d_z(i, j)) * kept(i, j); }, 1e-6);
  // d_z may be in float beside others of 16 bits: sums over ranks are.
  Matrix wide(count, columns);
  ops::residual_layer_norm_backward(site, rows.view(), d_y, z, gamma.values.data(), mean.data(), rstd.data(), wide,
                                    d_x);
  CHECK(test::largest_difference(wide, d_z_exact) < 4e-4);
  check(
      d_x, [&](auto i, auto j) { return static_cast<double>(wide(i, j)) * kept(i, j); }, 1e-6);

  test::Vector<float> d_gamma(static_cast<std::size_t>(columns)), d_beta(d_gamma);
  ops::layer_norm_backward_weight(d_y, z, mean.data(), rstd.data(), d_gamma.data(), d_beta.data(), ops::Write::replace);
  for (std::int64_t j = 0; j < columns; ++j) {
    double gamma_sum = 0.0, beta_sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i) {
      gamma_sum += d_y(i, j) * normal(i, j);
      beta_sum += d_y(i, j);
    }
    CHECK(std::abs(d_gamma[static_cast<std::size_t>(j)] - gamma_sum) < 1e-4);
    CHECK(std::abs(d_beta[static_cast<std::size_t>(j)] - beta_sum) < 1e-5);
  }

  StoredMatrix dropped(type, count, columns);
  ops::dropout(site, rows.view(), d_y, dropped);
  check(
      dropped, [&](auto i, auto j) { return static_cast<double>(d_y(i, j)) * kept(i, j); }, 1e-6);
}

TEST_CASE("embeddings to and from 16-bit matrices") {
  const DataType type = a_type();
  const std::int64_t hidden = 70;
  const std::vector<std::int32_t> ids{4, 1, 4, 4, 0, 2}, types{0, 0, 1, 0, 1, 1}, lengths{4, 2};
  const test::HostBatch batch(ids, types, lengths);
  const std::vector<std::int32_t> positions{0, 1, 2, 3, 0, 1};
  const Matrix word = Matrix::random(5, hidden, 1), position = Matrix::random(4, hidden, 2),
               token_type = Matrix::random(2, hidden, 3);
  const auto at = [](const std::vector<std::int32_t>& list, std::int64_t t) {
    return list[static_cast<std::size_t>(t)];
  };
  StoredMatrix y(type, 6, hidden, 2);
  ops::embedding_forward(batch.view(), word, position, token_type, y);
  const auto sum = [&](std::int64_t t, std::int64_t j) {
    return static_cast<double>(word(at(ids, t), j)) + position(at(positions, t), j) + token_type(at(types, t), j);
  };
  check(y, sum, 1e-6);

  const StoredMatrix d_y = StoredMatrix::random(type, 6, hidden, 4);
  Matrix d_word(5, hidden), d_position(4, hidden), d_type(2, hidden);
  for (Matrix* table : {&d_word, &d_position, &d_type}) std::fill(table->values.begin(), table->values.end(), 0.0f);
  ops::embedding_backward(batch.view(), d_y, d_word, d_position, d_type);
  const auto gradient = [&](const std::vector<std::int32_t>& rows, std::int64_t row, std::int64_t j) {
    double total = 0.0;
    for (std::int64_t t = 0; t < 6; ++t) total += at(rows, t) == row ? d_y(t, j) : 0.0;
    return total;
  };
  CHECK(test::largest_difference(d_word, [&](auto i, auto j) { return gradient(ids, i, j); }) < 2e-6);
  CHECK(test::largest_difference(d_position, [&](auto i, auto j) { return gradient(positions, i, j); }) < 2e-6);
  CHECK(test::largest_difference(d_type, [&](auto i, auto j) { return gradient(types, i, j); }) < 2e-6);
}

// The reference is attention on floats, tested against double elsewhere, given the same numbers.
TEST_CASE("attention on 16-bit matrices is attention on floats, rounded once") {
  const DataType type = a_type();
  const std::string kind = GENERATE("portable", "plain", "fused", "fused-baseline");
  const std::int64_t head_dim = GENERATE(5, 32, 200), heads = 2, hidden = heads * head_dim;
  const float probability = GENERATE(0.0f, 0.2f);
  CAPTURE(kind, head_dim, probability);
  if (core::is_gpu_build() && kind == "fused-baseline") return;  // of CPU builds
  const Rows rows({40, 1, 17});
  const std::int64_t count = 58;
  const test::Vector<std::int64_t> samples{7, 8, 9};
  const core::Dropout site = site_of(probability, samples);
  const ops::AttentionExtents extents{3, heads, head_dim, 40};
  const StoredMatrix q = StoredMatrix::random(type, count, hidden, 1, 1.0f, 2);
  const StoredMatrix kv = StoredMatrix::random(type, count, 2 * hidden, 2);
  const StoredMatrix d_out = StoredMatrix::random(type, count, hidden, 3, 1.0f, 1);
  const core::ConstMatrix k = core::ConstMatrix(kv).column_range(0, hidden);
  const core::ConstMatrix v = core::ConstMatrix(kv).column_range(hidden, hidden);
  const auto wide = [](const core::ConstMatrix& x) {
    Matrix copy(x.rows, x.columns);
    ops::copy(x, copy);
    return copy;
  };

  const auto attention = ops::make_attention(kind, type);
  // AMX multiplies rounded probabilities; test_attention_masks.cpp bounds the errors of each element.
  if (attention->name().find("AMX") != std::string::npos) return;
  attention->reserve(40, head_dim);
  StoredMatrix out(type, count, hidden, 1), d_q(type, count, hidden, 3), d_k(type, count, hidden), d_v(d_k);
  Matrix lse(heads, count);
  const std::int64_t tiles = attention->dropout_tiles(40, head_dim);
  test::Vector<std::uint64_t> kept_words(static_cast<std::size_t>(heads * tiles * count));
  const core::Tensor<std::uint64_t> kept(kept_words.data(), heads * tiles, count);
  attention->forward({extents, rows.view(), rows.view(), site, q, k, v}, {out, lse, kept});
  attention->backward({extents, rows.view(), rows.view(), site, q, k, v}, {out, lse, kept}, d_out, {d_q, d_k, d_v});

  const auto reference = ops::make_attention("portable");
  Matrix r_out(count, hidden), r_d_q(count, hidden), r_d_k(count, hidden), r_d_v(count, hidden), r_lse(heads, count);
  const Matrix wide_q = wide(q), wide_k = wide(k), wide_v = wide(v), wide_d_out = wide(d_out);
  Matrix wide_out = wide(out);
  reference->forward({extents, rows.view(), rows.view(), site, wide_q, wide_k, wide_v}, {r_out, r_lse, {}});
  check(out, r_out, 1e-5);
  CHECK(test::largest_difference(lse, r_lse) < 1e-5);
  // Backward reads the result as it was stored.
  reference->backward({extents, rows.view(), rows.view(), site, wide_q, wide_k, wide_v}, {wide_out, r_lse, {}},
                      wide_d_out, {r_d_q, r_d_k, r_d_v});
  check(d_q, r_d_q, 1e-4);
  check(d_k, r_d_k, 1e-4);
  check(d_v, r_d_v, 1e-4);
}
