#include "bert_hpc/ops/random_fill.hpp"

#include <Kokkos_Core.hpp>
#include <cmath>

#include "bert_hpc/core/rng.hpp"

namespace bert_hpc::ops {

void fill(std::span<float> x, float value) {
  float* data = x.data();
  Kokkos::parallel_for(
      "bert_hpc::ops::fill", Kokkos::RangePolicy<>(0, static_cast<std::int64_t>(x.size())),
      KOKKOS_LAMBDA(const std::int64_t i) { data[i] = value; });
  Kokkos::fence();
}

void fill_normal(std::span<float> x, float deviation, std::uint64_t seed, std::int64_t first) {
  float* data = x.data();
  const auto count = static_cast<std::int64_t>(x.size());
  const auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  const std::int64_t first_block = first / 4, skipped = first % 4;
  Kokkos::parallel_for(
      "bert_hpc::ops::fill_normal", Kokkos::RangePolicy<>(0, (skipped + count + 3) / 4),
      KOKKOS_LAMBDA(const std::int64_t block) {
        const auto b = static_cast<std::uint64_t>(first_block + block);
        const core::Philox4 bits =
            core::philox(static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32), 0, 0, key0, key1);
        for (int pair = 0; pair < 2; ++pair) {
          // sqrt(−2·ln u)·(cos, sin)(2π·v), with u in (0, 1]
          const float u = 1.0f - core::uniform_float(bits.word[2 * pair]);
          const float angle = 6.28318530717958648f * core::uniform_float(bits.word[2 * pair + 1]);
          const float radius = deviation * std::sqrt(-2.0f * std::log(u));
          const std::int64_t i = 4 * block + 2 * pair - skipped;
          if (i >= 0 && i < count) data[i] = radius * std::cos(angle);
          if (i + 1 >= 0 && i + 1 < count) data[i + 1] = radius * std::sin(angle);
        }
      });
  Kokkos::fence();
}

}  // namespace bert_hpc::ops
