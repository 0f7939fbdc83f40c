// The largest model sizes that an input or a config.json may give.
#pragma once

#include <cstdint>

namespace bert_hpc::core {

inline constexpr std::int64_t largest_vocabulary = (std::int64_t{1} << 31) - 1;  ///< ids are 32 bits wide
inline constexpr std::int64_t largest_size = std::int64_t{1} << 20;  ///< products of two sizes stay far below 2^63
inline constexpr std::int64_t max_layers = 10000;
inline constexpr double largest_epsilon = 1.0;  ///< of a layer norm
inline constexpr double largest_initial_range = 100.0;

}  // namespace bert_hpc::core
