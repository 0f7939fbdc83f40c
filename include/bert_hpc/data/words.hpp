// Where the words of sequences lie, of tasks with classes of words.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace bert_hpc::data {

/// Stands behind each word in the texts of rows.
inline constexpr char word_end = '\x1f';

struct Words {
  std::vector<std::int64_t> offsets{0};  ///< (sequences + 1): words of sequence s are [offsets[s], offsets[s + 1])
  std::vector<std::int32_t> tokens{};    ///< (words, 2): shard_dataset::word_tokens

  std::int64_t count() const { return offsets.back(); }
  std::int64_t count(std::int64_t sequence) const {
    const auto s = static_cast<std::size_t>(sequence);
    return offsets[s + 1] - offsets[s];
  }
  /// Whether word `word` of sequence `sequence` has no characters. Its only token stands for it.
  bool is_empty(std::int64_t sequence, std::int64_t word) const {
    const auto at = static_cast<std::size_t>(2 * (offsets[static_cast<std::size_t>(sequence)] + word));
    return tokens[at] == tokens[at + 1];
  }
  void append(const Words& more) {
    const std::int64_t begin = offsets.back();
    for (std::size_t s = 1; s < more.offsets.size(); ++s) offsets.push_back(begin + more.offsets[s]);
    tokens.insert(tokens.end(), more.tokens.begin(), more.tokens.end());
  }
  /// For core/message.hpp.
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.offsets, self.tokens);
  }
  std::int64_t memory_bytes() const {
    return static_cast<std::int64_t>(offsets.capacity() * sizeof(std::int64_t) +
                                     tokens.capacity() * sizeof(std::int32_t));
  }
};

/// (names): the class of a word's tokens after the first, where those are labelled too, by the class of the word: "I-X"
/// for "B-X" where there is such a name, else the same.
std::vector<std::int32_t> classes_inside(const std::vector<std::string>& label_names);

/// Of data that do not exist yet: each token but the first and the last of a sequence is a word.
template <class Lengths>
Words planned_words(const Lengths& lengths) {
  Words words;
  for (const std::int32_t length : lengths) {
    for (std::int32_t token = 1; token + 1 < length; ++token)
      words.tokens.insert(words.tokens.end(), {token, token + 1});
    words.offsets.push_back(static_cast<std::int64_t>(words.tokens.size() / 2));
  }
  return words;
}

}  // namespace bert_hpc::data
