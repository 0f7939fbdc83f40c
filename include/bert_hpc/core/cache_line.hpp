// The unit in which memory moves: what pieces of arenas are aligned to, and what known zeros of gradients are told in.
#pragma once

#include <cstdint>

namespace bert_hpc::core {

inline constexpr std::int64_t floats_of_cache_line = 16;

}  // namespace bert_hpc::core
