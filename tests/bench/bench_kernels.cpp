// How fast each kernel is on this machine: the best of many short runs, as time, memory rate (bytes a pass must move)
// or GFLOP/s. Arguments: rows, columns (hidden), head_dim, sequence length; defaults are those of a small model's step.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/embedding.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/ops/gradient_squares.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "bert_hpc/ops/losses.hpp"
#include "support/adamw.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;
using test::Rows;

namespace {

/// Least seconds of one run of `work`, in processor time, which other programs on a busy machine disturb less.
double seconds(const std::function<void()>& work) {
  static const int threads = std::getenv("OMP_NUM_THREADS") != nullptr ? std::atoi(std::getenv("OMP_NUM_THREADS")) : 1;
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const auto time = [&](int repeats) {
    const double begin = now();
    for (int r = 0; r < repeats; ++r) work();
    return (now() - begin) / repeats / threads;
  };
  const int repeats = std::max(1, static_cast<int>(2e-4 / std::max(time(1), 1e-7)));
  double best = time(repeats);
  for (int s = 0; s < 100; ++s) best = std::min(best, time(repeats));
  return best;
}

void report(const char* name, double amount, const char* unit, const std::function<void()>& work) {
  const double s = seconds(work);
  std::printf("%-34s %10.2f us %9.2f %s\n", name, s * 1e6, amount / s * 1e-9, unit);
}

void bench_rows(std::int64_t rows, std::int64_t columns) {
  const double n = static_cast<double>(rows * columns);
  const Matrix x = Matrix::random(rows, columns, 1), residual = Matrix::random(rows, columns, 2);
  Matrix y(x), z(x), d_z(x), d_x(x);
  const Matrix bias = Matrix::random(1, columns, 3, 0.1f);
  std::vector<float> mean(static_cast<std::size_t>(rows)), rstd(mean), a(static_cast<std::size_t>(columns)), b(a);
  const Rows all(std::vector<int>(static_cast<std::size_t>(rows), 1));
  std::vector<std::int64_t> samples(static_cast<std::size_t>(rows), 5);
  core::Dropout off, site;
  site.probability = 0.1f;
  site.sample = samples.data();
  const float* g = bias.values.data();
  report("add_bias", 8 * n, "GB/s", [&] { ops::add_bias(y, g); });
  report("gelu_forward", 8 * n, "GB/s", [&] { ops::gelu_forward(x, y); });
  report("gelu_backward", 12 * n, "GB/s", [&] { ops::gelu_backward(x, residual, y); });
  report("tanh_forward", 8 * n, "GB/s", [&] { ops::tanh_forward(x, y); });
  report("add", 12 * n, "GB/s", [&] { ops::add(x, d_x); });
  report("column_sums", 4 * n, "GB/s", [&] { ops::column_sums(x, a.data(), ops::Write::replace); });
  report("dropout", n, "elements/ns", [&] { ops::dropout(site, all.view(), x, y); });
  report("residual_layer_norm, no dropout", 16 * n, "GB/s", [&] {
    ops::residual_layer_norm_forward(off, all.view(), z, nullptr, residual, g, g, 1e-12f, y, mean.data(), rstd.data());
  });
  z = x;
  report("residual_layer_norm, dropout", 16 * n, "GB/s", [&] {
    ops::residual_layer_norm_forward(site, all.view(), z, g, residual, g, g, 1e-12f, y, mean.data(), rstd.data());
  });
  report("residual_layer_norm_backward, none", 12 * n, "GB/s",
         [&] { ops::residual_layer_norm_backward(off, all.view(), x, z, g, mean.data(), rstd.data(), d_z, {}); });
  report("residual_layer_norm_backward, drop", 16 * n, "GB/s",
         [&] { ops::residual_layer_norm_backward(site, all.view(), x, z, g, mean.data(), rstd.data(), d_z, d_x); });
  report("layer_norm_backward_weight", 8 * n, "GB/s", [&] {
    ops::layer_norm_backward_weight(x, z, mean.data(), rstd.data(), a.data(), b.data(), ops::Write::replace);
  });
  std::vector<std::int32_t> labels(static_cast<std::size_t>(rows), 0);
  report("cross_entropy", 12 * n, "GB/s", [&] { ops::cross_entropy(x, labels.data(), 1.0f, mean.data(), y); });
}

void bench_flat(std::int64_t size) {
  const double n = static_cast<double>(size);
  const Matrix start = Matrix::random(1, size, 1, 0.01f);
  Matrix w(start), g(start), m(start), v(1, size);
  std::fill(v.values.begin(), v.values.end(), 1e-4f);
  std::vector<double> partial(static_cast<std::size_t>((size + 4095) / 4096));
  const ops::UpdateRange range{.value = w.values.data(),
                               .gradient = g.values.data(),
                               .states = {m.values.data(), v.values.data()},
                               .size = size};
  const ops::UpdateRanges ranges({&range, 1});
  const auto rule = test::adamw_rule(0.01);
  std::printf("flat range of %lld elements\n", static_cast<long long>(size));
  report("adamw_update", 32 * n, "GB/s", [&] { rule->update({.learning_rate = 1e-4}, ranges, 0, 1); });
  std::vector<std::uint8_t> codes(2 * static_cast<std::size_t>(size), 160);
  std::vector<float> scales(2 * static_cast<std::size_t>(core::state_blocks::count(size)), 1e-3f);
  const ops::UpdateRange coded{
      .value = w.values.data(),
      .gradient = g.values.data(),
      .size = size,
      .blocks = {{{codes.data(), scales.data()}, {codes.data() + size, scales.data() + scales.size() / 2}}}};
  const ops::UpdateRanges in_blocks({&coded, 1});
  const auto rule8 = test::adamw_rule(0.01, "adamw8bit");
  report("adamw8bit_update", 20 * n, "GB/s", [&] { rule8->update({.learning_rate = 1e-4}, in_blocks, 0, 1); });
  report("squared_norm_blocks", 4 * n, "GB/s", [&] { ops::squared_norm_blocks(w.values, partial); });
  report("accumulate", 12 * n, "GB/s", [&] { ops::accumulate(w.values, g.values); });
  report("set_zero", 4 * n, "GB/s", [&] { ops::set_zero(g.values); });
}

void bench_attention(std::int64_t rows, std::int64_t hidden, std::int64_t head_dim, std::int64_t length) {
  const std::int64_t sequences = std::max<std::int64_t>(1, rows / length), heads = hidden / head_dim;
  const std::int64_t count = sequences * length;
  const Rows all(std::vector<int>(static_cast<std::size_t>(sequences), static_cast<int>(length)));
  std::vector<std::int64_t> samples(static_cast<std::size_t>(sequences), 5);
  const Matrix qkv = Matrix::random(count, 3 * hidden, 1), d_out = Matrix::random(count, hidden, 2);
  Matrix out(count, hidden), lse(heads, count), d_qkv(count, 3 * hidden);
  const ops::AttentionExtents extents{sequences, heads, head_dim, length};
  const double flops = 4.0 * static_cast<double>(count) * static_cast<double>(length * hidden);
  for (const char* kind : {"fused", "plain"}) {
    const auto attention = ops::make_attention(kind);
    attention->reserve(length, head_dim);
    const std::int64_t tiles = attention->dropout_tiles(length, head_dim);
    std::vector<std::uint64_t> kept_words(static_cast<std::size_t>(heads * tiles * count));
    const core::Tensor<std::uint64_t> kept(kept_words.data(), heads * tiles, count);
    for (const float probability : {0.0f, 0.1f}) {
      core::Dropout site;
      site.probability = probability;
      site.sample = samples.data();
      const auto part = [hidden](auto& m, std::int64_t i) { return m.tensor().column_range(i * hidden, hidden); };
      const std::string label = attention->name() + (probability > 0 ? ", dropout" : "");
      report((label + ": forward").c_str(), flops, "GFLOP/s", [&] {
        attention->forward({extents, all.view(), all.view(), site, part(qkv, 0), part(qkv, 1), part(qkv, 2)},
                           {out, lse, kept});
      });
      report((label + ": backward").c_str(), 2.5 * flops, "GFLOP/s", [&] {
        attention->backward({extents, all.view(), all.view(), site, part(qkv, 0), part(qkv, 1), part(qkv, 2)},
                            {out, lse, kept}, d_out, {part(d_qkv, 0), part(d_qkv, 1), part(d_qkv, 2)});
      });
    }
    if (rows * length > 1000000) break;  // the reference takes too long
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::int64_t otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; };
  const core::DeviceRuntime runtime;
  const std::int64_t rows = argument(1, 500), columns = argument(2, 128);
  std::printf("%s, %d threads; %lld rows of %lld\n", core::DeviceRuntime::description().c_str(), runtime.threads(),
              static_cast<long long>(rows), static_cast<long long>(columns));
  bench_rows(rows, columns);
  bench_flat(columns * columns * 12);
  std::printf("attention\n");
  bench_attention(rows, columns, argument(3, 32), argument(4, 17));
}
