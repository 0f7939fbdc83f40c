// SequenceTable: length and first token of every sequence of a data set in little more than four bytes each: lengths,
// and the offset of every 64th sequence. The offset of any other takes at most 63 additions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/core/spare_capacity.hpp"

namespace bert_hpc::data {

class SequenceTable {
 public:
  void reserve(std::int64_t sequences) {
    lengths_.reserve(static_cast<std::size_t>(sequences));
    offsets_.reserve(static_cast<std::size_t>(sequences) / stride + 1);
  }
  /// What reserve() has taken too much, where that is a lot.
  void give_back() {
    core::give_back_spare(lengths_);
    core::give_back_spare(offsets_);
  }
  void append(std::int32_t length) {
    if (lengths_.size() % stride == 0) offsets_.push_back(tokens_);
    lengths_.push_back(length);
    tokens_ += length;
  }

  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t tokens() const { return tokens_; }
  std::span<const std::int32_t> lengths() const { return lengths_; }  ///< (sequences)
  std::int32_t length(std::int64_t sequence) const { return lengths_[static_cast<std::size_t>(sequence)]; }

  std::int64_t memory_bytes() const {
    return static_cast<std::int64_t>(lengths_.capacity() * sizeof(std::int32_t) +
                                     offsets_.capacity() * sizeof(std::int64_t));
  }

  /// Tokens before a sequence; of all sequences behind the last one.
  std::int64_t begin(std::int64_t sequence) const {
    if (sequence == sequences()) return tokens_;
    const auto last = static_cast<std::size_t>(sequence);
    std::int64_t offset = offsets_[last / stride];
    for (std::size_t i = last / stride * stride; i < last; ++i) offset += lengths_[i];
    return offset;
  }

 private:
  static constexpr std::size_t stride = 64;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> offsets_;  // tokens before every stride-th sequence
  std::int64_t tokens_ = 0;
};

}  // namespace bert_hpc::data
