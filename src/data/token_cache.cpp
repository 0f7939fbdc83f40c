// Units in slots, found through a table. Room is made by the clock algorithm (Corbató 1968): a hand goes round the
// slots, and takes the first that was not used since it came by last.
#include "bert_hpc/data/token_cache.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

#include "bert_hpc/core/error.hpp"
#include "token_memory.hpp"

namespace bert_hpc::data {
namespace {

constexpr int spins = 200;

std::int64_t units_of(std::span<const std::int64_t> file_tokens, std::int64_t unit_tokens) {
  std::int64_t units = 0;
  for (const std::int64_t tokens : file_tokens) units += blocks_of(tokens, unit_tokens);
  return units;
}

}  // namespace

/// The lock lies in memory that processes share. It is held for some instructions, and while room is looked for.
class TokenCache::Locked {
 public:
  explicit Locked(Head& head) : word_(head.lock) {
    static_assert(std::atomic_ref<std::uint32_t>::is_always_lock_free);
    for (int tries = 0; word_.exchange(1, std::memory_order_acquire) != 0; ++tries) {
      if (tries >= spins) std::this_thread::yield();
    }
  }
  ~Locked() { word_.store(0, std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  std::atomic_ref<std::uint32_t> word_;
};

std::int64_t TokenCache::bytes(std::span<const std::int64_t> file_tokens, const TokenLayout& layout,
                               std::int64_t unit_tokens, std::int64_t token_bytes, int processes) {
  const std::int64_t units = units_of(file_tokens, unit_tokens), unit_bytes = unit_tokens * layout.token_bytes();
  const std::int64_t slots = std::min(std::max<std::int64_t>(token_bytes / unit_bytes, 2 * processes), units);
  return aligned(sizeof(Head)) + aligned(units * std::int64_t{sizeof(std::uint32_t)}) +
         slots * (unit_bytes + std::int64_t{sizeof(Slot)}) + 2 * token_alignment;
}

TokenCache::TokenCache(std::span<const std::int64_t> file_tokens, const TokenLayout& layout, std::int64_t unit_tokens,
                       std::span<std::byte> memory, Read read)
    : read_(std::move(read)),
      layout_(layout),
      unit_tokens_(unit_tokens),
      file_tokens_(file_tokens.begin(), file_tokens.end()) {
  const std::int64_t units = units_of(file_tokens, unit_tokens);
  core::require(units < std::numeric_limits<std::uint32_t>::max(), "units of a cache have numbers of 32 bits");
  std::int64_t first = 0;
  for (const std::int64_t tokens : file_tokens_) {
    first_unit_.push_back(first);
    first += blocks_of(tokens, unit_tokens);
  }
  const std::int64_t table = aligned(sizeof(Head)) + aligned(units * std::int64_t{sizeof(std::uint32_t)});
  const std::int64_t slot_bytes = unit_tokens * layout.token_bytes() + std::int64_t{sizeof(Slot)};
  const std::int64_t slots = std::max<std::int64_t>(0, std::ssize(memory) - table - 2 * token_alignment) / slot_bytes;
  core::require(slots >= std::min<std::int64_t>(2, units), "a cache of tokens has memory for two units");
  head_ = reinterpret_cast<Head*>(memory.data());
  slot_of_ = {reinterpret_cast<std::uint32_t*>(memory.data() + aligned(sizeof(Head))), static_cast<std::size_t>(units)};
  slots_ = {reinterpret_cast<Slot*>(memory.data() + table), static_cast<std::size_t>(slots)};
  ids_ = memory.data() + table + aligned(slots * std::int64_t{sizeof(Slot)});
  types_ = layout.types ? reinterpret_cast<std::uint8_t*>(ids_) + slots * unit_tokens * layout.id_bytes() : nullptr;
}

/// A slot that is empty, or full and neither used of late nor copied from; under the lock.
bool TokenCache::find_room(std::uint32_t& slot) {
  const auto count = static_cast<std::uint32_t>(slots_.size());
  for (std::uint32_t tries = 0; tries < 2 * count; ++tries) {
    slot = head_->hand;
    head_->hand = slot + 1 == count ? 0 : slot + 1;
    Slot& found = slots_[slot];
    if (found.state == being_read || found.pins > 0) continue;
    if (found.state == empty || found.used == 0) return true;
    found.used = 0;
  }
  return false;
}

/// The slot that holds a unit, with one more pin.
std::uint32_t TokenCache::pin(int file, std::int64_t unit_in_file) {
  const auto unit = static_cast<std::uint32_t>(first_unit_[static_cast<std::size_t>(file)] + unit_in_file);
  for (;;) {
    std::uint32_t slot = 0;
    bool reads = false;
    {
      const Locked locked(*head_);
      if (slot_of_[unit] != 0) {
        slot = slot_of_[unit] - 1;
        if (slots_[slot].state == ready) {
          slots_[slot].used = 1;
          ++slots_[slot].pins;
          return slot;
        }
      } else if (find_room(slot)) {
        if (slots_[slot].state == ready) slot_of_[slots_[slot].unit] = 0;
        slots_[slot] = {.state = being_read, .pins = 1, .used = 0, .unit = unit};
        slot_of_[unit] = slot + 1;
        reads = true;
      }
    }
    if (reads) {
      fill(slot, file, unit_in_file);
      return slot;
    }
    std::this_thread::sleep_for(block_pause);
  }
}

/// Reads a unit into the slot that this process has claimed for it.
void TokenCache::fill(std::uint32_t slot, int file, std::int64_t unit_in_file) {
  const std::int64_t begin = unit_in_file * unit_tokens_;
  const auto count =
      static_cast<std::size_t>(std::min(unit_tokens_, file_tokens_[static_cast<std::size_t>(file)] - begin));
  const std::int64_t at = std::int64_t{slot} * unit_tokens_;
  try {
    read_ids_.resize(count);
    read_(file, begin, read_ids_, types_ == nullptr ? std::span<std::uint8_t>() : std::span(types_ + at, count));
  } catch (...) {
    const Locked locked(*head_);
    slot_of_[slots_[slot].unit] = 0;
    slots_[slot] = {};
    throw;
  }
  layout_.put(read_ids_, at, ids_);
  const Locked locked(*head_);
  slots_[slot].state = ready;
}

void TokenCache::copy(int file, std::int64_t begin, std::int64_t length, std::int32_t* ids, std::int32_t* types) {
  const std::int64_t end = begin + length;
  while (begin < end) {
    const std::int64_t unit = begin / unit_tokens_;
    const std::int64_t from = begin - unit * unit_tokens_;
    const std::int64_t count = std::min(end, (unit + 1) * unit_tokens_) - begin;
    const std::uint32_t slot = pin(file, unit);
    const std::int64_t at = std::int64_t{slot} * unit_tokens_ + from;
    layout_.get(ids_, at, count, ids);
    if (types_ != nullptr) {
      std::copy_n(types_ + at, count, types);
    } else {
      std::fill_n(types, count, 0);
    }
    {
      const Locked locked(*head_);
      --slots_[slot].pins;
    }
    ids += count;
    types += count;
    begin += count;
  }
}

}  // namespace bert_hpc::data
