#include "bert_hpc/ops/random_fill.hpp"

#include <cmath>

#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#include "kernel.hpp"
#if !BERT_HPC_KERNELS_ON_GPU
#include "cpu/philox_lanes.hpp"
#endif

namespace bert_hpc::ops {
namespace {

/// Number of Philox blocks of four values per work item; the loops over them vectorize.
constexpr int item_blocks = kernel::on_gpu ? 1 : 64;
constexpr int item_values = 4 * item_blocks;

/// Words of blocks [block, block + item_blocks), block after block.
KOKKOS_INLINE_FUNCTION void fill_words(std::uint64_t block, std::uint32_t key0, std::uint32_t key1,
                                       std::uint32_t* words) {
#if BERT_HPC_KERNELS_ON_GPU
  const core::Philox4 bits =
      core::philox(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0, key0, key1);
  for (int word = 0; word < 4; ++word) words[word] = bits.word[word];
#else
  const cpu::PhiloxStream stream{.c2 = 0, .c3 = 0, .key0 = key0, .key1 = key1};
  for (int begin = 0; begin < item_blocks; begin += 8, block += 8) {
    std::uint32_t low[8], high[8];
    for (std::uint64_t lane = 0; lane < 8; ++lane) {
      low[lane] = static_cast<std::uint32_t>(block + lane);
      high[lane] = static_cast<std::uint32_t>((block + lane) >> 32);
    }
    std::uint16_t halves[64];
    cpu::philox_of_8(cpu::listed_counters(low, high), stream, halves);
    for (int word = 0; word < 32; ++word) {
      words[4 * begin + word] =
          halves[2 * word] | static_cast<std::uint32_t>(static_cast<std::uint32_t>(halves[2 * word + 1]) << 16);
    }
  }
#endif
}

/// Converts pairs of words to pairs of normal values: √(−2·ln u)·(cos, sin)(2π·v), with u in (0, 1] (Box and Muller, "A
/// note on the generation of random normal deviates", 1958).
KOKKOS_INLINE_FUNCTION void normal_values(const std::uint32_t* words, float deviation, float* value) {
#pragma omp simd
  for (int pair = 0; pair < item_values / 2; ++pair) {
    const float u = 1.0f - core::uniform_float(words[2 * pair]);
    const SineCosine angle = sine_cosine_of_turns(core::uniform_float(words[2 * pair + 1]));
    const float radius = deviation * std::sqrt(-2.0f * fast_log(u));
    value[2 * pair] = radius * angle.cosine;
    value[2 * pair + 1] = radius * angle.sine;
  }
}

}  // namespace

void fill(std::span<float> x, float value) {
  float* data = x.data();
  kernel::for_flat(
      "bert_hpc::ops::fill", static_cast<std::int64_t>(x.size()), KOKKOS_LAMBDA(std::int64_t i) { data[i] = value; });
}

namespace {

/// x[i] = value i of the items of four values a Philox block, which `values(words, item)` makes of words.
template <class Values>
void fill_random(const char* name, std::span<float> x, std::uint64_t seed, std::int64_t first, const Values& values) {
  float* data = x.data();
  const auto count = static_cast<std::int64_t>(x.size());
  const auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  const std::int64_t first_block = first / 4, skipped = first % 4;
  kernel::for_items(
      name, kernel::divide_up(skipped + count, item_values), KOKKOS_LAMBDA(std::int64_t item) {
        std::uint32_t words[item_values];
        fill_words(static_cast<std::uint64_t>(first_block + item * item_blocks), key0, key1, words);
        float value[item_values];
        values(words, value);
        const std::int64_t from = item * item_values - skipped;
        for (std::int64_t i = from < 0 ? -from : 0; i < item_values && from + i < count; ++i) data[from + i] = value[i];
      });
}

struct Normal {
  float deviation;
  KOKKOS_INLINE_FUNCTION void operator()(const std::uint32_t* words, float* value) const {
    normal_values(words, deviation, value);
  }
};

struct Uniform {
  float bound;
  KOKKOS_INLINE_FUNCTION void operator()(const std::uint32_t* words, float* value) const {
    for (int i = 0; i < item_values; ++i) value[i] = bound * (2.0f * core::uniform_float(words[i]) - 1.0f);
  }
};

}  // namespace

void fill_normal(std::span<float> x, float deviation, std::uint64_t seed, std::int64_t first) {
  fill_random("bert_hpc::ops::fill_normal", x, seed, first, Normal{deviation});
}

void fill_truncated_normal(std::span<float> x, float deviation, float bound, std::uint64_t seed, std::int64_t first) {
  fill_normal(x, deviation, seed, first);
  float* data = x.data();
  const auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  kernel::for_flat(
      "bert_hpc::ops::redraw_beyond_bound", static_cast<std::int64_t>(x.size()), KOKKOS_LAMBDA(std::int64_t i) {
        const auto element = static_cast<std::uint64_t>(first + i);
        // Each draw is inside with a probability of 0.38 or more: 64 in a row outside do not occur.
        for (std::uint32_t draw = 1; draw <= 64 && !(data[i] >= -bound && data[i] <= bound); ++draw) {
          const core::Philox4 bits = core::philox(static_cast<std::uint32_t>(element),
                                                  static_cast<std::uint32_t>(element >> 32), draw, 0, key0, key1);
          const float u = 1.0f - core::uniform_float(bits.word[0]);
          const SineCosine angle = sine_cosine_of_turns(core::uniform_float(bits.word[1]));
          data[i] = deviation * std::sqrt(-2.0f * fast_log(u)) * angle.cosine;
        }
      });
}

void fill_uniform(std::span<float> x, float bound, std::uint64_t seed, std::int64_t first) {
  fill_random("bert_hpc::ops::fill_uniform", x, seed, first, Uniform{bound});
}

}  // namespace bert_hpc::ops
