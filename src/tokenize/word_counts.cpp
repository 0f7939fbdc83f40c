#include <algorithm>

#include "bert_hpc/tokenize/vocabulary_trainer.hpp"

namespace bert_hpc::tokenize {

void WordCounts::add(std::string_view word, std::int64_t count) {
  const auto found = counts_.find(word);
  if (found != counts_.end()) {
    found->second += count;
  } else {
    counts_.emplace(word, count);
  }
}

std::vector<WordCounts::Entry> WordCounts::sorted() const {
  std::vector<Entry> entries;
  entries.reserve(counts_.size());
  for (const auto& [word, count] : counts_) entries.push_back({word, count});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.word < b.word; });
  return entries;
}

}  // namespace bert_hpc::tokenize
