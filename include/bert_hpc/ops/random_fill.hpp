// Constant and random initial values.
#pragma once

#include <cstdint>
#include <span>

namespace bert_hpc::ops {

/// x = value.
void fill(std::span<float> x, float value);

/// x[i] ~ normal(0, deviation): Box and Muller (1958) on Philox blocks with counter i / 4, so that an element depends
/// on (seed, i) alone.
void fill_normal(std::span<float> x, float deviation, std::uint64_t seed);

}  // namespace bert_hpc::ops
