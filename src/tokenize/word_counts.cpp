#include <algorithm>

#include "bert_hpc/tokenize/vocabulary_trainer.hpp"

namespace bert_hpc::tokenize {

void VocabularyTrainer::count(std::string_view text, WordCounts& counts) {
  numbers_.clear();
  read(text, counts.words(), numbers_);
  counts.add_all(numbers_);
}

void WordCounts::add_all(const std::vector<std::int32_t>& numbers) {
  counts_.resize(static_cast<std::size_t>(words_.size()), 0);
  for (const std::int32_t number : numbers) {
    if (number >= WordNumbers::first_word) ++counts_[static_cast<std::size_t>(number)];
  }
}

void WordCounts::add(std::string_view word, std::int64_t count) {
  const auto number = static_cast<std::size_t>(words_.number_of(word));
  counts_.resize(static_cast<std::size_t>(words_.size()), 0);
  counts_[number] += count;
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
