// A WordPiece vocabulary: pieces ↔ ids, longest match from the left, and the file vocab.txt.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/byte_trie.hpp"
#include "bert_hpc/tokenize/special_ids.hpp"
#include "bert_hpc/tokenize/wordpiece_layout.hpp"

namespace bert_hpc::tokenize {

/// Immutable; shared by encoders of several threads. About 20 bytes a piece's byte in memory.
class Vocabulary {
 public:
  /// The pieces in vocab.txt, one a line, its id the line's number from 0. Throws Error(files) if it cannot be read,
  /// Error(data) if it is empty.
  static std::vector<std::string> lines_of(const std::string& file);

  /// If a piece is there twice, the last one counts, as in Transformers. `source` names the origin in error
  /// messages. Throws Error(data) if the pieces are no vocabulary: not UTF-8, or special tokens are missing.
  Vocabulary(std::vector<std::string> pieces, const std::string& source, const WordPieceLayout& layout = bert_layout());

  std::int32_t size() const { return static_cast<std::int32_t>(pieces_.size()); }
  const std::string& piece(std::int32_t id) const { return pieces_.at(static_cast<std::size_t>(id)); }
  const std::vector<std::string>& pieces() const { return pieces_; }
  const WordPieceLayout& layout() const { return *layout_; }
  const SpecialIds& special() const { return special_; }

  /// Id of a piece ("##" included); -1 if there is none.
  std::int32_t id(std::string_view piece) const;

  /// Identifies the vocabulary: core::hash_of_lines() of the pieces.
  const std::string& hash() const { return hash_; }

  /// The text of vocab.txt.
  std::string text() const;

  using Match = ByteTrie::Match;
  /// Longest piece that `bytes[0 … size)` begins with: a word's first piece, or a later one ("##…").
  Match longest_first(const char* bytes, int size) const { return trie_.longest(first_root, bytes, size); }
  Match longest_later(const char* bytes, int size) const { return trie_.longest(later_root, bytes, size); }

 private:
  static constexpr std::int32_t first_root = 0, later_root = 1;

  void check_and_find_special(const std::string& source);

  std::vector<std::string> pieces_;
  const WordPieceLayout* layout_;
  ByteTrie trie_;
  SpecialIds special_;
  std::string hash_;
};

/// The share of pieces that hold a capital, of those that begin words; without "[UNK]" and its like. BERT-base's cased
/// vocabulary: 0.36; its uncased one: 0.
double capital_share(const std::vector<std::string>& pieces);

}  // namespace bert_hpc::tokenize
