#include "bert_hpc/data/token_store.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "bert_hpc/core/error.hpp"
#include "token_memory.hpp"

namespace bert_hpc::data {
namespace {

class CountedIn {
 public:
  explicit CountedIn(std::atomic<int>& count) : count_(count) { ++count_; }
  ~CountedIn() { --count_; }
  CountedIn(const CountedIn&) = delete;
  CountedIn& operator=(const CountedIn&) = delete;

 private:
  std::atomic<int>& count_;
};

struct Parts {
  std::int64_t states = 0, ids = 0, types = 0;  // bytes of each
};

Parts parts_of(std::span<const std::int64_t> file_tokens, const TokenLayout& layout, std::int64_t block_tokens) {
  std::int64_t blocks = 0, tokens = 0;
  for (const std::int64_t own : file_tokens) {
    blocks += blocks_of(own, block_tokens);
    tokens += own;
  }
  return {aligned(blocks * std::int64_t{sizeof(std::uint32_t)}), aligned(tokens * layout.id_bytes()),
          layout.types ? tokens : 0};
}

/// A state lies in memory that processes share, where there is no waiting for a change.
std::atomic_ref<std::uint32_t> state_of(std::uint32_t& word) {
  static_assert(std::atomic_ref<std::uint32_t>::is_always_lock_free);
  return std::atomic_ref(word);
}

}  // namespace

std::int64_t TokenStore::bytes(std::span<const std::int64_t> file_tokens, const TokenLayout& layout,
                               std::int64_t block_tokens) {
  const Parts parts = parts_of(file_tokens, layout, block_tokens);
  return parts.states + parts.ids + parts.types;
}

TokenStore::TokenStore(std::span<const std::int64_t> file_tokens, const TokenLayout& layout, std::int64_t block_tokens,
                       std::span<std::byte> memory, Read read)
    : read_(std::move(read)), layout_(layout), block_tokens_(block_tokens) {
  const Parts parts = parts_of(file_tokens, layout, block_tokens);
  core::require(std::ssize(memory) >= parts.states + parts.ids + parts.types, "a store of tokens has its memory");
  first_token_.push_back(0);
  first_block_.push_back(0);
  for (const std::int64_t own : file_tokens) {
    first_token_.push_back(first_token_.back() + own);
    first_block_.push_back(first_block_.back() + blocks_of(own, block_tokens));
  }
  const auto tokens = static_cast<std::size_t>(first_token_.back());
  states_ = {reinterpret_cast<std::uint32_t*>(memory.data()), static_cast<std::size_t>(blocks())};
  ids_ = memory.data() + parts.states;
  if (layout.types) types_ = {reinterpret_cast<std::uint8_t*>(memory.data() + parts.states + parts.ids), tokens};
}

bool TokenStore::has(std::int64_t block) const {
  return state_of(states_[static_cast<std::size_t>(block)]).load(std::memory_order_acquire) == ready;
}

bool TokenStore::claim(std::int64_t block, std::uint32_t from) {
  return state_of(states_[static_cast<std::size_t>(block)])
      .compare_exchange_strong(from, being_read, std::memory_order_acquire);
}

std::int64_t TokenStore::file_of(std::int64_t block) const {
  // Files without tokens share their first block with the next one: the last of them has it.
  return std::upper_bound(first_block_.begin(), first_block_.end(), block) - first_block_.begin() - 1;
}

/// A block that this thread has claimed.
void TokenStore::read(std::int64_t block) {
  const auto state = state_of(states_[static_cast<std::size_t>(block)]);
  const auto file = static_cast<std::size_t>(file_of(block));
  const std::int64_t begin = (block - first_block_[file]) * block_tokens_;
  const std::int64_t tokens = first_token_[file + 1] - first_token_[file];
  const auto at = static_cast<std::size_t>(first_token_[file] + begin);
  const auto count = static_cast<std::size_t>(std::min(block_tokens_, tokens - begin));
  static thread_local std::vector<std::int32_t> ids;  // as they are read; two threads read
  try {
    ids.resize(count);
    read_(static_cast<int>(file), begin, ids, types_.empty() ? types_ : types_.subspan(at, count));
    layout_.put(ids, static_cast<std::int64_t>(at), ids_);
  } catch (...) {
    state.store(failed, std::memory_order_release);
    throw;
  }
  state.store(ready, std::memory_order_release);
}

void TokenStore::fill(int file, std::span<const std::int32_t> ids, std::span<const std::uint8_t> types) {
  const auto f = static_cast<std::size_t>(file);
  const auto at = first_token_[f];
  core::require(std::ssize(ids) == first_token_[f + 1] - at, "a file is filled as a whole");
  layout_.put(ids, at, ids_);
  if (!types_.empty()) std::copy(types.begin(), types.end(), types_.begin() + at);  // memory is zero at first
  for (std::int64_t block = first_block_[f]; block < first_block_[f + 1]; ++block) {
    state_of(states_[static_cast<std::size_t>(block)]).store(ready, std::memory_order_release);
  }
}

void TokenStore::read_ahead(std::int64_t block) noexcept {
  while (copies_reading_ > 0) std::this_thread::sleep_for(block_pause);
  if (!claim(block, untouched)) return;
  try {
    read(block);
  } catch (...) {  // it has the state `failed`, and who needs it reads it again
    return;
  }
}

void TokenStore::need(std::int64_t block) {
  for (;;) {
    const std::uint32_t state = state_of(states_[static_cast<std::size_t>(block)]).load(std::memory_order_acquire);
    if (state == ready) return;
    if (state == being_read) {
      std::this_thread::sleep_for(block_pause);
    } else if (claim(block, state)) {
      const CountedIn counted(copies_reading_);
      return read(block);
    }
  }
}

void TokenStore::copy(int file, std::int64_t begin, std::int64_t length, std::int32_t* ids, std::int32_t* types) {
  const auto f = static_cast<std::size_t>(file);
  const std::int64_t end = begin + length;
  for (std::int64_t block = begin / block_tokens_; block * block_tokens_ < end; ++block) {
    need(first_block_[f] + block);
  }
  const std::int64_t at = first_token_[f] + begin;
  layout_.get(ids_, at, length, ids);
  if (types_.empty()) {
    std::fill_n(types, length, 0);
  } else {
    std::copy_n(types_.begin() + at, length, types);
  }
}

}  // namespace bert_hpc::data
