// Kernels give the same bits on any number of threads. The number is fixed when a process starts, so this hidden case
// prints a number made of all results, and integration/test_kernel_threads.sh runs it with several thread counts.
#include <catch2/catch_test_macros.hpp>
#include <cstdio>

#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "bert_hpc/ops/losses.hpp"
#include "bert_hpc/ops/row_norms.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;
using test::Rows;

namespace {

const std::vector<int> lengths{40, 1, 90, 17, 64, 30};
constexpr std::int64_t count = 242, hidden = 192;

struct Sum {
  std::uint64_t hash = 0;
  void add(const core::Tensor<const float>& x) { hash = hash * 31 + test::bits_of(x); }
};

void add_row_kernels(Sum& sum, const core::Dropout& site, const Rows& rows) {
  const Matrix x = Matrix::random(count, hidden, 1), residual = Matrix::random(count, hidden, 2);
  const Matrix gamma = Matrix::random(1, hidden, 3);
  Matrix z(x), y(x), d_x(x), mean(1, count), rstd(1, count), d_gamma(gamma), d_beta(gamma);
  const float* g = gamma.values.data();
  ops::residual_layer_norm_forward(site, rows.view(), z, g, residual, g, g, 1e-12f, y, mean.values.data(),
                                   rstd.values.data());
  ops::layer_norm_backward_weight(x, z, mean.values.data(), rstd.values.data(), d_gamma.values.data(),
                                  d_beta.values.data(), ops::Write::replace);
  sum.add(y);
  sum.add(d_gamma);
  sum.add(d_beta);
  ops::residual_layer_norm_backward(site, rows.view(), x, z, g, mean.values.data(), rstd.values.data(), y, d_x);
  sum.add(d_x);
  ops::column_sums(x, d_beta.values.data(), ops::Write::accumulate);
  sum.add(d_beta);
  const Matrix b = Matrix::random(2, count, 6);
  ops::row_norms({.w = x, .a = residual.tensor().row_range(0, 2), .b = b}, x.values.data(), mean.values.data(),
                 rstd.values.data());
  sum.add(rstd);
  ops::add_column_products(x, residual, g, d_beta.values.data());
  sum.add(d_beta);
  const test::Vector<std::int32_t> labels(static_cast<std::size_t>(count), 3);
  ops::cross_entropy(x, labels.data(), 0.5f, mean.values.data(), y);
  sum.add(y);
  Matrix total(1, 1);
  test::Vector<double> result(1);
  ops::sum(mean.values.data(), count, result.data());
  total(0, 0) = static_cast<float>(result[0]);
  sum.add(total);
}

void add_attention(Sum& sum, const std::string& kind, const core::Dropout& site, const Rows& rows) {
  const Matrix qkv = Matrix::random(count, 3 * hidden, 4), d_out = Matrix::random(count, hidden, 5);
  Matrix out(count, hidden), lse(3, count), d_qkv(count, 3 * hidden);
  const auto part = [](auto& m, std::int64_t i) { return m.tensor().column_range(i * hidden, hidden); };
  const auto attention = ops::make_attention(kind);
  attention->reserve(90, 64);
  const std::int64_t kept_rows = 3 * attention->dropout_tiles(90, 64);
  test::Vector<std::uint64_t> kept_words(static_cast<std::size_t>(kept_rows * count));
  const core::Tensor<std::uint64_t> kept(kept_words.data(), kept_rows, count);
  const ops::AttentionExtents extents{6, 3, 64, 90};
  attention->forward({extents, rows.view(), rows.view(), site, part(qkv, 0), part(qkv, 1), part(qkv, 2)},
                     {out, lse, kept});
  attention->backward({extents, rows.view(), rows.view(), site, part(qkv, 0), part(qkv, 1), part(qkv, 2)},
                      {out, lse, kept}, d_out, {part(d_qkv, 0), part(d_qkv, 1), part(d_qkv, 2)});
  sum.add(out);
  sum.add(d_qkv);
}

}  // namespace

TEST_CASE("bits of all kernels as one number", "[.bits]") {
  const Rows rows(lengths);
  const test::Vector<std::int64_t> samples{9, 8, 7, 6, 5, 4};
  core::Dropout site;
  site.probability = 0.1f;
  site.sample = samples.data();
  ops::set_dropout_key(site, 1, 2);
  Sum sum;
  add_row_kernels(sum, site, rows);
  add_attention(sum, "portable", site, rows);
  add_attention(sum, "plain", site, rows);
  add_attention(sum, "fused", site, rows);
  std::printf("bits: %016llx\n", static_cast<unsigned long long>(sum.hash));
}
