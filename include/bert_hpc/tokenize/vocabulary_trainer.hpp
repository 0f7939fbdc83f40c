// Vocabularies from text. Words are counted first, by any number of ranks; one of them then makes the vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bert_hpc/tokenize/word_cache.hpp"

namespace bert_hpc::tokenize {

/// Times each normalized word was seen. Grows with the number of different words only.
class WordCounts {
 public:
  /// The word's bytes may be followed by anything.
  void add(std::string_view word, std::int64_t count);
  void add_one(const Word& word);

  struct Entry {
    std::string word;
    std::int64_t count;
  };
  /// All words in order of their bytes.
  std::vector<Entry> sorted() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct ShortCount {
    ShortWord word;
    std::int64_t count = 0;
  };
  std::int64_t& count_of(const ShortWord& word);
  std::int64_t& count_of(std::string_view word);
  void grow();

  // Nearly all words are short: those lie in a table of 2^bits entries with open addressing, at most half full.
  static constexpr int first_bits = 12;
  int shift_ = 64 - first_bits;
  std::size_t short_words_ = 0;
  std::vector<ShortCount> short_ = std::vector<ShortCount>(std::size_t{1} << first_bits);
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> long_;
};

/// Makes the vocabulary of one kind of tokenizer (TokenizerKind::trainer).
class VocabularyTrainer {
 public:
  virtual ~VocabularyTrainer() = default;

  /// Adds the words of `text` (UTF-8, may be malformed) to `counts`; special tokens and words that are too long to be
  /// known are left out.
  virtual void count(std::string_view text, WordCounts& counts) = 0;

  /// The lines of a vocabulary of at most `size` tokens, for TokenizerKind::make. They depend on `words` alone, which
  /// are in order of their bytes. Throws Error(data) if there are no words or `size` is too small for their characters.
  virtual std::vector<std::string> train(const std::vector<WordCounts::Entry>& words, std::int32_t size) const = 0;
};

}  // namespace bert_hpc::tokenize
