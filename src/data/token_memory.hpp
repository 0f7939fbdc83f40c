// What the store and the cache of tokens have in common. Internal to the module.
#pragma once

#include <chrono>
#include <cstdint>

#include "bert_hpc/core/cache_line.hpp"

namespace bert_hpc::data {

/// Alignment of the parts of memory that processes share, in bytes.
inline constexpr std::int64_t token_alignment = core::floats_of_cache_line * std::int64_t{sizeof(float)};

inline std::int64_t aligned(std::int64_t bytes) {
  return (bytes + token_alignment - 1) / token_alignment * token_alignment;
}

/// Blocks, or units of a cache, of a file.
inline std::int64_t blocks_of(std::int64_t tokens, std::int64_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

/// Between two looks whether another process has read a block, which takes some hundred microseconds or more.
inline constexpr auto block_pause = std::chrono::microseconds(50);

}  // namespace bert_hpc::data
