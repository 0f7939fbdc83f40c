#include <algorithm>

#include "bert_hpc/tokenize/vocabulary_trainer.hpp"

namespace bert_hpc::tokenize {

void VocabularyTrainer::count(std::string_view text, WordCounts& counts) {
  numbers_.clear();
  read(text, counts.words(), numbers_);
  for (const std::int32_t number : numbers_) {
    if (number >= WordNumbers::first_word) counts.add(number, 1);
  }
}

std::vector<WordCounts::Entry> WordCounts::sorted() const {
  std::vector<Entry> entries;
  for (std::int32_t number = WordNumbers::first_word; number < std::ssize(counts_); ++number) {
    const std::int64_t count = counts_[static_cast<std::size_t>(number)];
    if (count > 0) entries.push_back({words_.word(number), count});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.word < b.word; });
  return entries;
}

}  // namespace bert_hpc::tokenize
