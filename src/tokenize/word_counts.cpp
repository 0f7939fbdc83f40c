#include <algorithm>
#include <utility>

#include "bert_hpc/tokenize/vocabulary_trainer.hpp"

namespace bert_hpc::tokenize {

std::int64_t& WordCounts::count_of(const ShortWord& word) {
  for (std::size_t at = word.slot(shift_);; at = (at + 1) & (short_.size() - 1)) {
    ShortCount& entry = short_[at];
    if (entry.word == word) return entry.count;
    if (!entry.word.is_none()) continue;
    if (2 * (short_words_ + 1) > short_.size()) {
      grow();
      return count_of(word);
    }
    ++short_words_;
    entry.word = word;
    return entry.count;
  }
}

void WordCounts::grow() {
  const std::vector<ShortCount> old = std::exchange(short_, std::vector<ShortCount>(2 * short_.size()));
  --shift_;
  short_words_ = 0;
  for (const ShortCount& entry : old) {
    if (!entry.word.is_none()) count_of(entry.word) = entry.count;
  }
}

std::int64_t& WordCounts::count_of(std::string_view word) {
  const auto found = long_.find(word);
  return found != long_.end() ? found->second : long_.emplace(word, 0).first->second;
}

void WordCounts::add(std::string_view word, std::int64_t count) {
  (word.size() <= ShortWord::longest ? count_of(ShortWord(word)) : count_of(word)) += count;
}

void WordCounts::add_one(const Word& word) {
  if (word.size <= ShortWord::longest) {
    ++count_of(ShortWord(word));
  } else {
    add({word.bytes, static_cast<std::size_t>(word.size)}, 1);
  }
}

std::vector<WordCounts::Entry> WordCounts::sorted() const {
  std::vector<Entry> entries;
  entries.reserve(short_words_ + long_.size());
  for (const auto& [word, count] : short_) {
    if (!word.is_none()) entries.push_back({word.text(), count});
  }
  for (const auto& [word, count] : long_) entries.push_back({word, count});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.word < b.word; });
  return entries;
}

}  // namespace bert_hpc::tokenize
