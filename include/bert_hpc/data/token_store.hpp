// TokenStore: the tokens of a data set that fits in memory, in blocks of fixed size. A block is read when it is first
// needed, or ahead of that by read_ahead(), so that a run is ready before its data are read. Processes may share one
// store: each block is then read by one of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bert_hpc/data/token_cache.hpp"

namespace bert_hpc::data {

class TokenStore {
 public:
  using Read = TokenCache::Read;

  /// Of the memory that such tokens take. file_tokens (files): tokens of each.
  static std::int64_t bytes(std::span<const std::int64_t> file_tokens, const TokenLayout& layout,
                            std::int64_t block_tokens);

  /// `memory` (bytes()) is zero where no process has written to it, and outlives the store; processes that share it
  /// make stores of the same tokens. `read` is called by one thread of this process for each block that no other
  /// process has read, and must be safe to call from two threads at a time.
  TokenStore(std::span<const std::int64_t> file_tokens, const TokenLayout& layout, std::int64_t block_tokens,
             std::span<std::byte> memory, Read read);

  /// Copies tokens [begin, begin + length) of a file into ids and types (length each; types are zeros if none are
  /// kept). Throws what `read` throws; waits where another thread or process is reading a block.
  void copy(int file, std::int64_t begin, std::int64_t length, std::int32_t* ids, std::int32_t* types);

  /// All tokens of a file, which have been read already. types: empty, zeros where types are kept.
  void fill(int file, std::span<const std::int32_t> ids, std::span<const std::uint8_t> types);

  std::int64_t blocks() const { return first_block_.back(); }
  /// Reads a block that no thread or process has begun to read, once no copy() of this process waits for one. A block
  /// that cannot be read is left to copy(), which says why.
  void read_ahead(std::int64_t block) noexcept;
  bool has(std::int64_t block) const;

 private:
  // Of a block in `states_`, memory that is zero at first.
  enum State : std::uint32_t { untouched = 0, being_read = 1, ready = 2, failed = 3 };

  std::int64_t file_of(std::int64_t block) const;
  void need(std::int64_t block);
  bool claim(std::int64_t block, std::uint32_t from);
  void read(std::int64_t block);

  Read read_;
  TokenLayout layout_;
  std::int64_t block_tokens_;
  std::atomic<int> copies_reading_ = 0;
  std::vector<std::int64_t> first_token_, first_block_;  // (files + 1)
  std::span<std::uint32_t> states_;                      // (blocks)
  std::byte* ids_ = nullptr;                             // (tokens)
  std::span<std::uint8_t> types_;                        // (tokens), or empty
};

}  // namespace bert_hpc::data
