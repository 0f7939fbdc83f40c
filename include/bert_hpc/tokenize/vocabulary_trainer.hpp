// Vocabularies from text. Words are counted first, by any number of ranks; one of them then makes the vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bert_hpc/tokenize/word_numbers.hpp"

namespace bert_hpc::tokenize {

/// Times each normalized word was seen. Grows with the number of different words only.
class WordCounts {
 public:
  /// The word's bytes may be followed by anything.
  void add(std::string_view word, std::int64_t count);
  /// The words among `numbers`, which are those of words().
  void add_all(const std::vector<std::int32_t>& numbers);
  WordNumbers& words() { return words_; }

  struct Entry {
    std::string word;
    std::int64_t count;
  };
  /// All words that were seen, in order of their bytes.
  std::vector<Entry> sorted() const;

 private:
  WordNumbers words_;
  std::vector<std::int64_t> counts_;  // by number
};

/// TokenizerParts that a training makes.
struct TrainedVocabulary {
  std::vector<std::string> vocabulary, merges{};
  std::string sections{};

  /// For core/message.hpp.
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.vocabulary, self.merges, self.sections);
  }
};

/// Makes the vocabulary of one kind of tokenizer (TokenizerKind::trainer).
class VocabularyTrainer {
 public:
  virtual ~VocabularyTrainer() = default;

  /// Appends the numbers of the words of `text` (UTF-8, may be malformed) to `numbers`, with those of special tokens
  /// and of words that are too long to be known: TextEncoder::encode_word() of each, or the id of the role, gives the
  /// ids of the text.
  virtual void read(std::string_view text, WordNumbers& words, std::vector<std::int32_t>& numbers) = 0;
  /// Adds the words of `text` to `counts`, as read() has them, without special tokens and words that are too long.
  void count(std::string_view text, WordCounts& counts);

  /// A vocabulary of at most `size` tokens. It depends on `words` alone, which are in order of their bytes. Throws
  /// Error(data) if there are no words or `size` is too small for their characters.
  virtual TrainedVocabulary train(const std::vector<WordCounts::Entry>& words, std::int32_t size) const = 0;

 private:
  std::vector<std::int32_t> numbers_;
};

}  // namespace bert_hpc::tokenize
