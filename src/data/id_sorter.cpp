// Least-significant-digit radix sort over the bits that a vocabulary needs.
#include "bert_hpc/data/id_sorter.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::data {

IdSorter::IdSorter(std::int64_t max_tokens, std::int64_t vocabulary_size) {
  // Digits of at most 11 bits: their counts stay in the first cache.
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(vocabulary_size - 1))));
  passes_ = (bits + 10) / 11;
  digit_bits_ = (bits + passes_ - 1) / passes_;
  counts_.resize(std::size_t{1} << digit_bits_);
  entries_.resize(static_cast<std::size_t>(max_tokens));
  sorted_.resize(static_cast<std::size_t>(max_tokens));
}

std::int64_t IdSorter::sort(std::span<const std::int32_t> input_ids, std::int32_t* ids, std::int32_t* segments,
                            std::int32_t* order) {
  const std::size_t tokens = input_ids.size();
  core::require(tokens <= entries_.size(), "more ids than the sorter was made for");
  for (std::size_t row = 0; row < tokens; ++row) {
    entries_[row] = static_cast<std::uint64_t>(input_ids[row]) << 32 | row;
  }
  const std::uint64_t mask = (std::uint64_t{1} << digit_bits_) - 1;
  for (int pass = 0; pass < passes_; ++pass) {
    const int shift = 32 + pass * digit_bits_;
    std::fill(counts_.begin(), counts_.end(), 0);
    for (std::size_t i = 0; i < tokens; ++i) ++counts_[entries_[i] >> shift & mask];
    std::int32_t before = 0;
    for (std::int32_t& count : counts_) before += std::exchange(count, before);
    for (std::size_t i = 0; i < tokens; ++i) {
      sorted_[static_cast<std::size_t>(counts_[entries_[i] >> shift & mask]++)] = entries_[i];
    }
    std::swap(entries_, sorted_);
  }
  std::int64_t unique = 0;
  for (std::size_t i = 0; i < tokens; ++i) {
    const auto id = static_cast<std::int32_t>(entries_[i] >> 32);
    order[i] = static_cast<std::int32_t>(entries_[i]);
    if (unique == 0 || ids[unique - 1] != id) {
      ids[unique] = id;
      segments[unique++] = static_cast<std::int32_t>(i);
    }
  }
  segments[unique] = static_cast<std::int32_t>(tokens);
  return unique;
}

}  // namespace bert_hpc::data
