// Distinct words of text by number, so that text can be read once: what is known of a word later, its count or its
// tokens, lies in arrays by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bert_hpc/tokenize/special_ids.hpp"
#include "bert_hpc/tokenize/word_cache.hpp"

namespace bert_hpc::tokenize {

/// Normalized words in the order in which they first came. Numbers below `first_word` are those of special tokens that
/// are spelled out in the text, in the order of special_roles; "unk" stands for words that are too long as well.
class WordNumbers {
 public:
  static constexpr std::int32_t first_word = static_cast<std::int32_t>(special_roles.size());

  /// Number of a word; a new word is added.
  std::int32_t number_of(const Word& word);
  std::int32_t number_of(std::string_view word);

  std::int32_t size() const { return first_word + static_cast<std::int32_t>(words_.size()); }  ///< above all numbers
  std::string word(std::int32_t number) const;  ///< number ≥ first_word

 private:
  std::int32_t number_of(const ShortWord& word);
  std::int32_t number_of_long(std::string_view word);
  void grow();

  // Nearly all words are short: of those a table of 2^bits numbers with open addressing, at most half full; 0 is free.
  static constexpr int first_bits = 12;
  int shift_ = 64 - first_bits;
  std::vector<std::int32_t> table_ = std::vector<std::int32_t>(std::size_t{1} << first_bits);
  std::size_t short_words_ = 0;
  std::unordered_map<std::string, std::int32_t> long_;
  std::vector<const std::string*> long_words_;  // keys of long_
  std::vector<ShortWord> words_;  // by number, from first_word; of a long word {0, its index in long_words_}
};

}  // namespace bert_hpc::tokenize
