#include <algorithm>

#include "bert_hpc/tokenize/vocabulary_trainer.hpp"

namespace bert_hpc::tokenize {

std::int64_t& WordCounts::count_of(std::string_view word) {
  const auto found = counts_.find(word);
  return found != counts_.end() ? found->second : counts_.emplace(word, 0).first->second;
}

void WordCounts::add_one(const Word& word) {
  const std::string_view bytes(word.bytes, static_cast<std::size_t>(word.size));
  if (word.size > WordCache<std::int64_t>::longest) return add(bytes, 1);
  const WordCache<std::int64_t>::Slot slot = cache_.claim(word);
  if (!slot.is_known) {
    if (!slot.evicted().empty()) add(slot.evicted(), slot.value);
    slot.value = 0;
  }
  ++slot.value;
}

std::vector<WordCounts::Entry> WordCounts::sorted() {
  cache_.take_all([this](std::string_view word, std::int64_t count) { add(word, count); });
  std::vector<Entry> entries;
  entries.reserve(counts_.size());
  for (const auto& [word, count] : counts_) entries.push_back({word, count});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.word < b.word; });
  return entries;
}

}  // namespace bert_hpc::tokenize
