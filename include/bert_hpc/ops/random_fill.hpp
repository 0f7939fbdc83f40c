// Constant and random initial values.
#pragma once

#include <cstdint>
#include <span>

namespace bert_hpc::ops {

/// x = value.
void fill(std::span<float> x, float value);

/// x[i] ~ normal(0, deviation), where x[i] is element e = first + i of a longer vector. Box and Muller (1958) on Philox
/// blocks with counter e / 4, so the value depends only on (seed, e).
void fill_normal(std::span<float> x, float deviation, std::uint64_t seed, std::int64_t first = 0);

/// The same within ±bound: values outside are drawn again, by blocks of their own. bound ≥ deviation / 2.
void fill_truncated_normal(std::span<float> x, float deviation, float bound, std::uint64_t seed,
                           std::int64_t first = 0);

/// x[i] uniform in [-bound, bound), by the same counters.
void fill_uniform(std::span<float> x, float bound, std::uint64_t seed, std::int64_t first = 0);

}  // namespace bert_hpc::ops
