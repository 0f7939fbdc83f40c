#include "bert_hpc/tokenize/bpe_merges.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::tokenize {

MergeTable::MergeTable(std::size_t merges) : entries_(std::bit_ceil(2 * merges + 2)) {
  shift_ = 64 - std::countr_zero(entries_.size());
}

void MergeTable::insert(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t at = slot(key);
  while (entries_[at].key != free && entries_[at].key != key) at = (at + 1) & (entries_.size() - 1);
  entries_[at] = {key, merge};
}

std::vector<MergeIds> merge_ids(const std::vector<std::string>& merges,
                                const std::unordered_map<std::string, std::int32_t>& ids, std::size_t size,
                                const std::string& source) {
  std::vector<MergeIds> all;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& merge = merges[rank];
    const std::size_t blank = merge.find(' ');
    const std::string left = merge.substr(0, blank), right = blank == std::string::npos ? "" : merge.substr(blank + 1);
    const std::string joined = left + right;
    const auto id_of = [&](const std::string& token) {
      const auto found = ids.find(token);
      const bool is_known = found != ids.end() && static_cast<std::size_t>(found->second) < size;
      if (is_known && right.find(' ') == std::string::npos) return found->second;
      const auto quoted = [](const std::string& text) { return '"' + core::printable(text, 80) + '"'; };
      throw core::Error(core::ExitCode::data, source + ": merge " + std::to_string(rank + 1) + ", " + quoted(merge) +
                                                  ", needs the token " + quoted(token) +
                                                  ", which the vocabulary lacks.");
    };
    const std::int32_t left_id = id_of(left), right_id = id_of(right);
    all.push_back({left_id, right_id, id_of(joined)});
  }
  return all;
}

MergeTable merge_table(const std::vector<MergeIds>& merges) {
  MergeTable table(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    table.insert(merges[rank].left, merges[rank].right, {static_cast<std::int32_t>(rank), merges[rank].joined});
  }
  return table;
}

void BpeMerger::merge(std::vector<std::int32_t>& ids, std::vector<std::int32_t>* starts) {
  std::size_t count = symbols_.size();
  if (count > short_word) return merge_long(ids, starts);
  ranks_.resize(short_word);
  merged_.resize(short_word);
  if (starts != nullptr) {
    starts_.resize(count);
    std::iota(starts_.begin(), starts_.end(), 0);
  }
  const auto look_up = [&](std::size_t i) {
    const MergeTable::Merge merge = table_.find(symbols_[i], symbols_[i + 1]);
    ranks_[i] = merge.rank;
    merged_[i] = merge.id;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    const auto* const least = std::min_element(ranks_.data(), ranks_.data() + count - 1);
    if (*least == MergeTable::no_rank) break;
    const auto at = static_cast<std::size_t>(least - ranks_.data());
    symbols_[at] = merged_[at];
    --count;
    const auto close_gap = [&](std::vector<std::int32_t>& values) {
      std::copy(values.begin() + static_cast<std::ptrdiff_t>(at) + 2,
                values.begin() + static_cast<std::ptrdiff_t>(count) + 1,
                values.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    };
    close_gap(symbols_);
    if (starts != nullptr) close_gap(starts_);
    for (std::size_t i = at + 1; i + 1 < count; ++i) {
      ranks_[i] = ranks_[i + 1];
      merged_[i] = merged_[i + 1];
    }
    if (at + 1 < count) look_up(at);
    if (at > 0) look_up(at - 1);
  }
  const auto append = [&](const std::vector<std::int32_t>& values, std::vector<std::int32_t>& to) {
    to.insert(to.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
  };
  append(symbols_, ids);
  if (starts != nullptr) append(starts_, *starts);
}

/// The same merges with a queue of candidates.
void BpeMerger::merge_long(std::vector<std::int32_t>& ids, std::vector<std::int32_t>* starts) {
  const auto count = static_cast<std::int32_t>(symbols_.size());
  before_.resize(symbols_.size());
  behind_.resize(symbols_.size());
  queue_.clear();
  for (std::int32_t i = 0; i < count; ++i) {
    before_[static_cast<std::size_t>(i)] = i - 1;
    behind_[static_cast<std::size_t>(i)] = i + 1;
  }
  const auto found = [&](std::int32_t left) -> MergeTable::Merge {
    const std::int32_t right = behind_[static_cast<std::size_t>(left)];
    if (right >= count) return {MergeTable::no_rank, -1};
    return table_.find(symbols_[static_cast<std::size_t>(left)], symbols_[static_cast<std::size_t>(right)]);
  };
  const auto push = [&](std::int32_t left) {
    const std::int32_t rank = found(left).rank;
    if (rank == MergeTable::no_rank) return;
    queue_.push_back({rank, left});
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) push(i);
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    const Candidate top = queue_.back();
    queue_.pop_back();
    const auto left = static_cast<std::size_t>(top.index);
    if (symbols_[left] < 0) continue;  // became a part of the token before it
    const MergeTable::Merge merge = found(top.index);
    if (merge.rank != top.rank) continue;  // of a pair that is no more
    const auto right = static_cast<std::size_t>(behind_[left]);
    symbols_[left] = merge.id;
    symbols_[right] = -1;
    behind_[left] = behind_[right];
    if (behind_[left] < count) before_[static_cast<std::size_t>(behind_[left])] = top.index;
    push(top.index);
    if (before_[left] >= 0) push(before_[left]);
  }
  for (std::int32_t at = 0; at < count; at = behind_[static_cast<std::size_t>(at)]) {
    ids.push_back(symbols_[static_cast<std::size_t>(at)]);
    if (starts != nullptr) starts->push_back(at);
  }
}

}  // namespace bert_hpc::tokenize
