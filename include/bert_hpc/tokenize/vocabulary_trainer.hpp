// Makes a WordPiece vocabulary from word counts, as Hugging Face's WordPieceTrainer does: pairs of neighbouring pieces
// are merged, the most frequent first, until the vocabulary is full (Sennrich, Haddow, Birch 2016, arXiv:1508.07909,
// with WordPiece's "##" for pieces inside a word). Unlike there the result does not depend on the order of a hash
// table: characters are ordered by code point, and of equally frequent pairs the one of older pieces is merged first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bert_hpc/tokenize/word_splitter.hpp"

namespace bert_hpc::tokenize {

/// Times each normalized word was seen. Grows with the number of different words only.
class WordCounter {
 public:
  explicit WordCounter(const TextForm& form);

  /// Counts the words of `text` (UTF-8, may be malformed); words too long to be known and special tokens are left out.
  void add(std::string_view text);
  void add_word(std::string_view word, std::int64_t count);

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
  WordSplitter splitter_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
};

/// At most `size` pieces: the special tokens, the (at most 1,000 most frequent) characters, and merges. `words` are in
/// order of their bytes, as WordCounter::sorted() gives them. Throws Error(data) if there are no words or `size` does
/// not even hold special tokens and characters.
std::vector<std::string> train_wordpiece(const std::vector<WordCounter::Entry>& words, std::int32_t size);

}  // namespace bert_hpc::tokenize
