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
};

/// Ids in memory of the caller's, aligned to 4 bytes.
class IdArray {
 public:
  IdArray() = default;
  IdArray(std::byte* data, bool wide) : data_(data), wide_(wide) {}

  /// The elements from `at` on become `ids`, which lie below 65536 where they take 16 bits.
  void put(std::int64_t at, std::span<const std::int32_t> ids) const {
    if (wide_) {
      std::copy(ids.begin(), ids.end(), reinterpret_cast<std::int32_t*>(data_) + at);
    } else {
      std::transform(ids.begin(), ids.end(), reinterpret_cast<std::uint16_t*>(data_) + at,
                     [](std::int32_t id) { return static_cast<std::uint16_t>(id); });
    }
  }
  void get(std::int64_t at, std::int64_t count, std::int32_t* ids) const {
    if (wide_) {
      std::copy_n(reinterpret_cast<const std::int32_t*>(data_) + at, count, ids);
    } else {
      std::copy_n(reinterpret_cast<const std::uint16_t*>(data_) + at, count, ids);
    }
  }
  /// The memory of `count` elements where it holds them as they are read; else empty.
  std::span<std::int32_t> direct(std::int64_t at, std::int64_t count) const {
    if (!wide_) return {};
    return {reinterpret_cast<std::int32_t*>(data_) + at, static_cast<std::size_t>(count)};
  }

 private:
  std::byte* data_ = nullptr;
  bool wide_ = true;
};

}  // namespace bert_hpc::data
