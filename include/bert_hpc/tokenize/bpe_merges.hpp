// The merges of BPE (Sennrich, Haddow, Birch 2016, arXiv:1508.07909): of the pairs of neighbours that the list of
// merges has, the one that comes first in it becomes one token, of equal pairs the leftmost, until there are none.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace bert_hpc::tokenize {

/// Pairs of tokens that become one, by their ids. Immutable; shared by threads. 16 bytes × 2 to 4 a merge in memory.
class MergeTable {
 public:
  struct Merge {
    std::int32_t rank;  ///< index in the list of merges; no_rank: the pair is not merged
    std::int32_t id;    ///< of the token that the pair becomes
  };
  static constexpr std::int32_t no_rank = INT32_MAX;

  explicit MergeTable(std::size_t merges = 0);
  /// A pair that is there already has its new rank.
  void insert(std::int32_t left, std::int32_t right, Merge merge);

  Merge find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = slot(key);; at = (at + 1) & (entries_.size() - 1)) {
      if (entries_[at].key == key) return entries_[at].merge;
      if (entries_[at].key == free) return {no_rank, -1};
    }
  }

 private:
  static constexpr std::uint64_t free = ~std::uint64_t{0};
  struct Entry {
    std::uint64_t key = free;
    Merge merge{no_rank, -1};
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t slot(std::uint64_t key) const {
    return ((key ^ (key >> 29)) * std::uint64_t{0x9E3779B97F4A7C15}) >> shift_;
  }

  std::vector<Entry> entries_;
  int shift_ = 0;
};

/// The ids of a merge "left right" of a list.
struct MergeIds {
  std::int32_t left, right, joined;
};
/// The ids of all merges. Throws Error(data), naming `source`, for one that is no pair of tokens, or whose tokens the
/// vocabulary lacks: those of `ids` below `size`.
std::vector<MergeIds> merge_ids(const std::vector<std::string>& merges,
                                const std::unordered_map<std::string, std::int32_t>& ids, std::size_t size,
                                const std::string& source);
/// The table of these merges, whose ranks are their indices.
MergeTable merge_table(const std::vector<MergeIds>& merges);

/// Merges the symbols of one word after the other. The table must outlive it. Allocates only by growing.
class BpeMerger {
 public:
  explicit BpeMerger(const MergeTable& table) : table_(table) {}

  /// The first tokens of a word, for the caller to set.
  std::vector<std::int32_t>& symbols() { return symbols_; }
  /// Appends to `ids` what the symbols become, and to `starts`, unless it is null, the index of the first symbol of
  /// each id. n symbols take O(n log n).
  void merge(std::vector<std::int32_t>& ids, std::vector<std::int32_t>* starts = nullptr);

 private:
  struct Candidate {
    std::int32_t rank, index;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : index > other.index;
    }
  };
  static constexpr std::size_t short_word = 128;  // symbols; longer words are merged with a queue

  void merge_long(std::vector<std::int32_t>& ids, std::vector<std::int32_t>* starts);

  const MergeTable& table_;
  std::vector<std::int32_t> symbols_;
  std::vector<std::int32_t> ranks_, merged_, starts_;  // of short words: of each pair of neighbours; of each symbol
  std::vector<std::int32_t> before_, behind_;          // of long words: indices of neighbours
  std::vector<Candidate> queue_;
};

}  // namespace bert_hpc::tokenize
