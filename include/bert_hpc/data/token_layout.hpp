// How tokens are kept in memory: ids in 16 bits where the vocabulary allows, types in 8 where there are any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace bert_hpc::data {

struct TokenLayout {
  bool types = false;  ///< token types are kept
  bool wide = true;    ///< ids take 32 bits, else 16

  std::int64_t id_bytes() const { return wide ? 4 : 2; }
  std::int64_t token_bytes() const { return id_bytes() + (types ? 1 : 0); }

  /// The ids in `memory`, aligned to 4 bytes, from number `at` on become `ids`, which fit.
  void put(std::span<const std::int32_t> ids, std::int64_t at, std::byte* memory) const {
    if (wide) {
      std::copy(ids.begin(), ids.end(), reinterpret_cast<std::int32_t*>(memory) + at);
    } else {
      std::transform(ids.begin(), ids.end(), reinterpret_cast<std::uint16_t*>(memory) + at,
                     [](std::int32_t id) { return static_cast<std::uint16_t>(id); });
    }
  }
  void get(const std::byte* memory, std::int64_t at, std::int64_t count, std::int32_t* ids) const {
    if (wide) {
      std::copy_n(reinterpret_cast<const std::int32_t*>(memory) + at, count, ids);
    } else {
      std::copy_n(reinterpret_cast<const std::uint16_t*>(memory) + at, count, ids);
    }
  }
};

}  // namespace bert_hpc::data
