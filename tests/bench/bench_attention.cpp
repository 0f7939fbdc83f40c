// How fast attention is: fused, plain and portable kernels side by side, on lengths of real work, in device memory, as
// time and rate: 4·hidden operations a pair of query and key in the mask forward and 10 backward, whatever a kernel
// computes twice. Arguments: bf16, fp16, fp32 or tf32 (default bf16), heads and head_dim (default 12 of 64), tokens of
// a batch (default 16384; 512 on a CPU), one implementation alone: fused, plain, portable, or on GPUs fused-split,
// whose backward pass computes d_q in a kernel of its own at every length, as that of fp32 always does (default or
// "all": all), and the mask: full, causal or window, of 64 tokens on both sides (default full). The last line begins
// with "= " and sums up: the fused kernels with dropout, in brackets the backward pass of fused-split.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "support/type_named.hpp"

using namespace bert_hpc;

namespace {

template <class T>
core::Buffer<T> on_device(const std::vector<T>& values) {
  core::Buffer<T> buffer(static_cast<std::int64_t>(values.size()));
  core::copy_to_device(values.data(), buffer.data(), values.size() * sizeof(T));
  return buffer;
}

/// Seconds of one call: the best of five runs of many, each waited for once.
double seconds(const std::function<void()>& work) {
  const auto time = [&](int repeats) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) work();
    core::wait_for_kernels();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
  };
  time(1);
  const int repeats = static_cast<int>(std::clamp(0.05 / time(1), 1.0, 1000.0));
  double best = time(repeats);
  for (int run = 1; run < 5; ++run) best = std::min(best, time(repeats));
  return best;
}

/// Random numbers of a type, as many bytes as (rows, columns) takes.
core::Buffer<std::byte> random_matrix(core::DataType type, std::int64_t rows, std::int64_t columns, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> few(65537);
  for (float& x : few) x = normal(engine);
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * columns * bytes_of(type)));
  core::with_type(type, [&]<class T>() {
    T* elements = reinterpret_cast<T*>(bytes.data());
    for (std::int64_t i = 0; i < rows * columns; ++i) elements[i] = T(few[static_cast<std::size_t>(i) % few.size()]);
  });
  return on_device(bytes);
}

/// A line for each kind of kernel and dropout. Returns the fused kernels' rates with dropout, as text.
std::string bench(const char* title, const test::Compute& compute, std::int64_t heads, std::int64_t head_dim,
                  const std::vector<int>& lengths, bool with_portable, const std::string& only,
                  ops::AttentionMask mask) {
  const core::DataType type = compute.type;
  std::vector<std::int32_t> offsets{0}, sequence, position;
  std::vector<std::int64_t> samples;
  double squares = 0.0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    for (int p = 0; p < lengths[b]; ++p) {
      sequence.push_back(static_cast<std::int32_t>(b));
      position.push_back(p);
    }
    offsets.push_back(static_cast<std::int32_t>(position.size()));
    samples.push_back(static_cast<std::int64_t>(b));
    squares += static_cast<double>(lengths[b]) * lengths[b];
  }
  const auto d_offsets = on_device(offsets), d_sequence = on_device(sequence), d_position = on_device(position);
  const auto d_samples = on_device(samples);
  const std::int64_t count = offsets.back(), hidden = heads * head_dim;
  const core::TokenRows rows{count, d_offsets.data(), d_sequence.data(), d_position.data()};
  const ops::AttentionExtents extents{static_cast<std::int64_t>(lengths.size()), heads, head_dim,
                                      *std::max_element(lengths.begin(), lengths.end())};
  const auto inputs = random_matrix(type, count, 3 * hidden, 1), slopes = random_matrix(type, count, hidden, 2);
  const auto gradients = random_matrix(type, count, 3 * hidden, 3), result = random_matrix(type, count, hidden, 4);
  const core::Buffer<float> lse_memory(heads * count);
  const core::Tensor<float> lse(lse_memory.data(), heads, count);
  const core::Matrix qkv(inputs.data(), count, 3 * hidden, 3 * hidden, type),
      out(result.data(), count, hidden, hidden, type);
  const core::Matrix d_qkv(gradients.data(), count, 3 * hidden, 3 * hidden, type);
  const core::Matrix d_out(slopes.data(), count, hidden, hidden, type);
  const auto part = [hidden](const core::Matrix& x, std::int64_t i) { return x.column_range(i * hidden, hidden); };

  std::string fused;
  const bool has_split = core::is_gpu_build() && type != core::DataType::fp32;
  for (const std::string kind : {"fused", "fused-split", "plain", "portable"}) {
    const bool chosen = kind == "portable"      ? with_portable
                        : kind == "plain"       ? !core::is_gpu_build()
                        : kind == "fused-split" ? has_split
                                                : true;
    if (only.empty() ? !chosen : kind != only) continue;
    const auto attention = ops::make_attention(kind, type, compute.tf32);
    attention->reserve(extents.max_length, head_dim);
    const std::int64_t tiles = attention->dropout_tiles(extents.max_length, head_dim);
    const core::Buffer<std::uint64_t> kept_memory(heads * tiles * count);
    const core::Tensor<std::uint64_t> kept(kept_memory.data(), heads * tiles, count);
    for (const float probability : {0.0f, 0.1f}) {
      core::Dropout site;
      site.probability = probability;
      site.sample = d_samples.data();
      const ops::AttentionInputs in{extents, rows, rows, site, part(qkv, 0), part(qkv, 1), part(qkv, 2), mask};
      const double forward = seconds([&] { attention->forward(in, {out, lse, kept}); });
      const double backward = seconds([&] {
        attention->backward(in, {out, lse, kept}, d_out, {part(d_qkv, 0), part(d_qkv, 1), part(d_qkv, 2)});
      });
      const double pairs = ops::masked_pairs(mask, squares, static_cast<double>(count));
      const double operations = 4.0 * static_cast<double>(hidden) * pairs;
      std::printf("%-22s %-42s dropout %.1f  forward %10.1f us %8.3f TFLOP/s  backward %10.1f us %8.3f TFLOP/s\n",
                  title, attention->name().c_str(), static_cast<double>(probability), forward * 1e6,
                  operations / forward * 1e-12, backward * 1e6, 2.5 * operations / backward * 1e-12);
      std::fflush(stdout);
      if (kind[0] == 'f' && probability > 0.0f) {
        char text[120];
        const double rate = 2.5 * operations / backward * 1e-12;
        if (fused.empty()) {
          std::snprintf(text, sizeof text, "%s %.3g and %.3g", title, operations / forward * 1e-12, rate);
        } else {
          std::snprintf(text, sizeof text, " (split: %.3g)", rate);
        }
        fused += text;
      }
    }
  }
  return fused;
}

/// Lengths around `mean` as texts have them, none beyond `most`.
std::vector<int> lengths_of_texts(double mean, int most, std::int64_t tokens) {
  std::mt19937 engine(7);
  std::lognormal_distribution<double> draw(std::log(mean) - 0.08, 0.4);
  std::vector<int> lengths;
  for (std::int64_t total = 0; total < tokens; total += lengths.back()) {
    lengths.push_back(std::clamp(static_cast<int>(draw(engine)), 5, most));
  }
  return lengths;
}

}  // namespace

int main(int argc, char** argv) {
  const core::DeviceRuntime runtime;
  const bool on_gpu = core::is_gpu_build();
  const std::string name = argc > 1 ? argv[1] : "bf16";
  const test::Compute compute = test::compute_named(name);
  const auto argument = [&](int i, std::int64_t otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; };
  const std::string only = argc > 5 && std::string(argv[5]) != "all" ? argv[5] : "";
  const std::string shape = argc > 6 ? argv[6] : "full";
  const ops::AttentionMask mask = shape == "causal"   ? ops::AttentionMask::causal()
                                  : shape == "window" ? ops::AttentionMask::window(64)
                                                      : ops::AttentionMask::full();
  const std::int64_t heads = argument(2, 12), head_dim = argument(3, 64), tokens = argument(4, on_gpu ? 16384 : 512);
  std::printf("%s, %s, %lld heads of %lld, about %lld tokens, %s\n", core::DeviceRuntime::description().c_str(),
              name.c_str(), static_cast<long long>(heads), static_cast<long long>(head_dim),
              static_cast<long long>(tokens), shape.c_str());
  std::string summary;
  for (const int length : {4096, 1024, 512, 384, 256, 128, 64, 17}) {
    const std::vector<int> lengths(static_cast<std::size_t>(std::max<std::int64_t>(1, tokens / length)), length);
    summary += bench(("length " + std::to_string(length)).c_str(), compute, heads, head_dim, lengths, length <= 128,
                     only, mask);
    summary += "; ";
  }
  summary +=
      bench("lengths as in SQuAD", compute, heads, head_dim, lengths_of_texts(165, 384, tokens), true, only, mask) +
      "; ";
  summary +=
      bench("lengths of short texts", compute, heads, head_dim, lengths_of_texts(17, 64, tokens / 8), true, only, mask);
  std::printf("= fused, dropout 0.1, TFLOP/s forward and backward: %s\n", summary.c_str());
}
