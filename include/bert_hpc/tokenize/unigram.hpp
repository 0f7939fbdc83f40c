// Unigram tokenizers, identical to Hugging Face's (Kudo 2018, "Subword regularization", arXiv:1804.10959): text is
// normalized and cut into words that begin with "▁", and a word becomes the tokens whose scores have the largest sum.
//
// Speed: words of at most 16 bytes that became at most 3 tokens are remembered; no allocation but by growing.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/byte_trie.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/word_cache.hpp"
#include "bert_hpc/tokenize/word_marks.hpp"

namespace bert_hpc::tokenize {

/// The entry of tokenizer_kinds().
const TokenizerKind& unigram_kind();

/// What encoders of a tokenizer share. Immutable.
struct UnigramModel {
  ByteTrie pieces;
  std::vector<double> scores;  ///< (pieces of the vocabulary)
  double unknown_score = 0;    ///< of a character that is no piece
  std::int32_t unknown = -1;
  bool falls_back = false;  ///< to tokens of bytes, for characters that no piece has
  std::array<std::int32_t, 256> byte_ids{};
  WordMarks marks{};
};

/// The model and the added tokens must outlive it.
class UnigramEncoder final : public TextEncoder {
 public:
  UnigramEncoder(const UnigramModel& model, const SearchedTokens& tokens);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) override;
  void encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids, std::vector<TokenSpan>& spans) override;
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) override;

 private:
  /// A token and its bytes [begin, end) of the word that is being cut.
  struct Token {
    std::int32_t id;
    std::size_t begin, end;
  };
  /// The best way to a position between bytes.
  struct Path {
    double score = 0;
    std::int32_t id = -1;
    std::ptrdiff_t begin = -1;  ///< of its last piece; −1: there is no way
  };

  void cut(std::string_view word);
  void add_unknown(std::string_view word, std::size_t begin, std::size_t end);
  void add_piece(std::string_view text, const MarkedWords::Piece& piece, std::vector<std::int32_t>& ids);

  const UnigramModel& model_;
  MarkedWords words_;
  std::vector<Path> paths_;
  std::vector<Token> tokens_;  // of a word, the last first until cut() reverses them
  WordCache<FewIds> cache_{16};
};

}  // namespace bert_hpc::tokenize
