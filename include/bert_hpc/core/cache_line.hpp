// The cache line, the unit of memory transfers: pieces of arenas are aligned to it, and each mark of a gradient's known
// zeros covers one.
#pragma once

#include <cstdint>

namespace bert_hpc::core {

inline constexpr std::int64_t floats_of_cache_line = 16;

}  // namespace bert_hpc::core
