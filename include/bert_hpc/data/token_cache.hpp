// TokenCache: tokens of shards too large for memory, in units of fixed size, the least recently used one making room
// for the next. With samples drawn from a window (Sampler) that fits, each unit is read once a window.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bert_hpc/data/token_layout.hpp"

namespace bert_hpc::data {

class TokenCache {
 public:
  /// Fills ids and types of tokens [begin, begin + ids.size()) of a file; throws on bad data.
  using Read =
      std::function<void(int file, std::int64_t begin, std::span<std::int32_t> ids, std::span<std::uint8_t> types)>;

  /// file_tokens (files): tokens of each. At least two units are kept, whatever cache_bytes says.
  TokenCache(std::span<const std::int64_t> file_tokens, const TokenLayout& layout, std::int64_t unit_tokens,
             std::int64_t cache_bytes, Read read);

  /// Copies tokens [begin, begin + length) of a file into ids and types (length each). Nothing is allocated once the
  /// cache is full.
  void copy(int file, std::int64_t begin, std::int64_t length, std::int32_t* ids, std::int32_t* types);

  /// Once it is full.
  std::int64_t memory_bytes() const;

 private:
  struct Slot {
    std::int64_t unit = -1;
    std::int64_t last_use = 0;
    std::vector<std::byte> ids;
    std::vector<std::uint8_t> types;
  };
  const Slot& fetch(int file, std::int64_t unit_in_file);

  Read read_;
  TokenLayout layout_;
  std::int64_t unit_tokens_;
  std::size_t max_slots_;
  std::int64_t uses_ = 0;
  std::vector<std::int64_t> file_tokens_;
  std::vector<std::int64_t> first_unit_;  // (files): number of each file's first unit
  std::vector<std::int32_t> slot_of_;     // (units): the slot that holds it, or -1
  std::vector<Slot> slots_;
  std::vector<std::int32_t> read_ids_;  // of a unit
};

}  // namespace bert_hpc::data
