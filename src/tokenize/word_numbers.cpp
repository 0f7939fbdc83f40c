#include "bert_hpc/tokenize/word_numbers.hpp"

#include <algorithm>

namespace bert_hpc::tokenize {

std::int32_t WordNumbers::number_of(const ShortWord& word) {
  for (std::size_t at = word.slot(shift_);; at = (at + 1) & (table_.size() - 1)) {
    const std::int32_t number = table_[at];
    if (number != 0) {
      if (words_[static_cast<std::size_t>(number - first_word)] == word) return number;
      continue;
    }
    if (2 * (short_words_ + 1) > table_.size()) {
      grow();
      return number_of(word);
    }
    ++short_words_;
    table_[at] = size();
    words_.push_back(word);
    return table_[at];
  }
}

void WordNumbers::grow() {
  table_.assign(2 * table_.size(), 0);
  --shift_;
  for (std::int32_t number = first_word; number < size(); ++number) {
    const ShortWord& word = words_[static_cast<std::size_t>(number - first_word)];
    if (word.is_none()) continue;
    std::size_t at = word.slot(shift_);
    while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = number;
  }
}

std::int32_t WordNumbers::number_of_long(std::string_view word) {
  const auto [found, added] = long_.try_emplace(std::string(word), size());
  if (added) {
    ShortWord& entry = words_.emplace_back();
    entry.key[1] = long_words_.size();
    long_words_.push_back(&found->first);
  }
  return found->second;
}

std::int32_t WordNumbers::number_of(std::string_view word) {
  return word.size() <= ShortWord::longest ? number_of(ShortWord(word)) : number_of_long(word);
}

std::int32_t WordNumbers::number_of(const Word& word) {
  if (word.size <= ShortWord::longest) return number_of(ShortWord(word));
  return number_of_long({word.bytes, static_cast<std::size_t>(word.size)});
}

std::string WordNumbers::word(std::int32_t number) const {
  const ShortWord& word = words_[static_cast<std::size_t>(number - first_word)];
  return word.is_none() ? *long_words_[word.key[1]] : word.text();
}

}  // namespace bert_hpc::tokenize
