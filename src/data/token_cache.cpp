// Least-recently-used units of tokens.
#include "bert_hpc/data/token_cache.hpp"

#include <algorithm>

namespace bert_hpc::data {

TokenCache::TokenCache(std::span<const std::int64_t> file_tokens, const TokenLayout& layout, std::int64_t unit_tokens,
                       std::int64_t cache_bytes, Read read)
    : read_(std::move(read)),
      layout_(layout),
      unit_tokens_(unit_tokens),
      max_slots_(
          static_cast<std::size_t>(std::max<std::int64_t>(cache_bytes / (unit_tokens * layout.token_bytes()), 2))),
      file_tokens_(file_tokens.begin(), file_tokens.end()) {
  std::int64_t units = 0;
  for (const std::int64_t tokens : file_tokens_) {
    first_unit_.push_back(units);
    units += (tokens + unit_tokens - 1) / unit_tokens;
  }
  slot_of_.assign(static_cast<std::size_t>(units), -1);
  max_slots_ = std::min(max_slots_, static_cast<std::size_t>(units));
  slots_.reserve(max_slots_);
}

std::int64_t TokenCache::memory_bytes() const {
  return static_cast<std::int64_t>(max_slots_) * unit_tokens_ * layout_.token_bytes() +
         static_cast<std::int64_t>(slot_of_.capacity() * sizeof(std::int32_t)) +
         unit_tokens_ * std::int64_t{sizeof(std::int32_t)};
}

const TokenCache::Slot& TokenCache::fetch(int file, std::int64_t unit_in_file) {
  const auto f = static_cast<std::size_t>(file);
  const auto unit = static_cast<std::size_t>(first_unit_[f] + unit_in_file);
  if (slot_of_[unit] < 0) {
    if (slots_.size() < max_slots_) {
      slots_.emplace_back();
      slots_.back().ids.resize(static_cast<std::size_t>(unit_tokens_ * layout_.id_bytes()));
      if (layout_.types) slots_.back().types.reserve(static_cast<std::size_t>(unit_tokens_));
    }
    // A linear search is nothing beside the read that follows. Empty slots were never used and come first.
    const auto oldest = std::min_element(slots_.begin(), slots_.end(),
                                         [](const Slot& a, const Slot& b) { return a.last_use < b.last_use; });
    if (oldest->unit >= 0) slot_of_[static_cast<std::size_t>(oldest->unit)] = -1;
    oldest->unit = -1;  // should the read throw
    const std::int64_t begin = unit_in_file * unit_tokens_;
    const auto count = static_cast<std::size_t>(std::min(unit_tokens_, file_tokens_[f] - begin));
    read_ids_.resize(count);
    if (layout_.types) oldest->types.resize(count);
    read_(file, begin, read_ids_, oldest->types);
    layout_.put(read_ids_, 0, oldest->ids.data());
    oldest->unit = static_cast<std::int64_t>(unit);
    slot_of_[unit] = static_cast<std::int32_t>(oldest - slots_.begin());
  }
  Slot& slot = slots_[static_cast<std::size_t>(slot_of_[unit])];
  slot.last_use = ++uses_;
  return slot;
}

void TokenCache::copy(int file, std::int64_t begin, std::int64_t length, std::int32_t* ids, std::int32_t* types) {
  const std::int64_t end = begin + length;
  while (begin < end) {
    const std::int64_t unit = begin / unit_tokens_;
    const std::int64_t from = begin - unit * unit_tokens_;
    const std::int64_t count = std::min(end, (unit + 1) * unit_tokens_) - begin;
    const Slot& slot = fetch(file, unit);
    layout_.get(slot.ids.data(), from, count, ids);
    if (layout_.types) {
      std::copy_n(slot.types.begin() + from, count, types);
    } else {
      std::fill_n(types, count, 0);
    }
    ids += count;
    types += count;
    begin += count;
  }
}

}  // namespace bert_hpc::data
