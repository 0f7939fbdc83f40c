// TokenCache: tokens of shards too large for memory, in units of fixed size; what was not used for the longest time
// makes room for the next, about. With samples drawn from a window (Sampler) that fits, each unit is read once a
// window. Processes may share one cache: each unit is then read by one of them.
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

  /// Of the memory for `token_bytes` of tokens; of at least two units for each process that shares it, and at most of
  /// all. file_tokens (files): tokens of each.
  static std::int64_t bytes(std::span<const std::int64_t> file_tokens, const TokenLayout& layout,
                            std::int64_t unit_tokens, std::int64_t token_bytes, int processes);

  /// `memory` (bytes()) is zero where no process has written to it, is aligned to 64 bytes, and outlives the cache;
  /// processes that share it make caches of the same tokens and size. `read` is called by the thread that calls copy().
  TokenCache(std::span<const std::int64_t> file_tokens, const TokenLayout& layout, std::int64_t unit_tokens,
             std::span<std::byte> memory, Read read);

  /// Copies tokens [begin, begin + length) of a file into ids and types (length each). Throws what `read` throws; waits
  /// where another process is reading a unit. Nothing is allocated once a
  /// whole unit was read.
  void copy(int file, std::int64_t begin, std::int64_t length, std::int32_t* ids, std::int32_t* types);

 private:
  // In the memory, zero at first. All are changed under the lock.
  struct Head {
    std::uint32_t lock, hand;  // hand: the slot at which the next search for room begins
  };
  enum State : std::uint32_t { empty = 0, being_read = 1, ready = 2 };
  struct Slot {
    std::uint32_t state;
    std::uint32_t pins;  // copies from it that are under way
    std::uint32_t used;  // since the hand came by
    std::uint32_t unit;
  };
  class Locked;

  std::uint32_t pin(int file, std::int64_t unit_in_file);
  bool find_room(std::uint32_t& slot);
  void fill(std::uint32_t slot, int file, std::int64_t unit_in_file);

  Read read_;
  TokenLayout layout_;
  std::int64_t unit_tokens_;
  std::vector<std::int64_t> file_tokens_;
  std::vector<std::int64_t> first_unit_;  // (files): number of each file's first unit
  Head* head_;
  std::span<std::uint32_t> slot_of_;  // (units): the slot that holds it, from 1; 0: none does
  std::span<Slot> slots_;
  std::byte* ids_;                      // (slots, unit_tokens)
  std::uint8_t* types_;                 // (slots, unit_tokens), or null
  std::vector<std::int32_t> read_ids_;  // of a unit
};

}  // namespace bert_hpc::data
