// Unigram tokenizers, identical to Hugging Face's (Kudo 2018, "Subword regularization", arXiv:1804.10959): text is
// normalized and cut into words that begin with "▁", and a word becomes the tokens whose scores have the largest sum.
//
// Speed: words of at most 16 bytes that became at most 3 tokens are remembered; no allocation but by growing.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/added_tokens.hpp"
#include "bert_hpc/tokenize/byte_trie.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/word_cache.hpp"

namespace bert_hpc::tokenize {

class CharacterMap;
struct OriginText;

/// The entry of tokenizer_kinds().
const TokenizerKind& unigram_kind();

/// A step of the normalizer.
struct UnigramStep {
  enum class Kind {
    map,         ///< by the CharacterMap
    strip,       ///< blanks at the ends go
    merge_runs,  ///< two or more spaces become `to`
    replace,     ///< `from` becomes `to`
  };
  Kind kind = Kind::map;
  bool left = false, right = false;  ///< strip: which ends
  std::string from{}, to{};
};

/// Texts before which "▁" is put, unless they begin with it or with a space.
enum class UnigramMark { always, first, never };

/// What encoders of a tokenizer share. Immutable.
struct UnigramModel {
  ByteTrie pieces;
  std::vector<double> scores;  ///< (pieces of the vocabulary)
  double unknown_score = 0;    ///< of a character that is no piece
  std::int32_t unknown = -1;
  bool falls_back = false;  ///< to tokens of bytes, for characters that no piece has
  std::array<std::int32_t, 256> byte_ids{};
  std::shared_ptr<const CharacterMap> map;  ///< of the steps; leaves all text as it is without a table
  std::vector<UnigramStep> steps;
  bool splits_blanks = false;  ///< text is cut at blanks, which go, before spaces become "▁"
  bool splits_marks = true;    ///< and at each "▁"
  UnigramMark mark = UnigramMark::always;
};

/// The text that the model's steps make of one in UTF-8.
std::string normalized_text(const UnigramModel& model, std::string_view text);

/// The model and the added tokens must outlive it. `added` are searched for in the text, `normalized` in what the steps
/// make of the parts between.
class UnigramEncoder final : public TextEncoder {
 public:
  UnigramEncoder(const UnigramModel& model, const AddedTokens& added, const AddedTokens& normalized);
  ~UnigramEncoder() override;

  void encode(std::string_view text, std::vector<std::int32_t>& ids) override;
  void encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids, std::vector<TokenSpan>& spans) override;
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) override;

 private:
  /// A part of a text without blanks. A "▁" stands before it if has_mark; `mark` is the byte of the text that it was,
  /// or −1.
  struct Piece {
    std::size_t begin = 0, end = 0;
    bool has_mark = false;
    std::ptrdiff_t mark = -1;
  };
  /// A token and its bytes [begin, end) of the word that is being cut.
  struct Token {
    std::int32_t id;
    std::size_t begin, end;
  };
  /// The best way to a place between bytes.
  struct Path {
    double score = 0;
    std::int32_t id = -1;
    std::ptrdiff_t begin = -1;  ///< of its last piece; −1: there is no way
  };

  std::string_view valid(std::string_view text);
  bool changes(std::string_view text) const;
  void normalize(std::string_view text, bool with_origins);
  template <class OnPiece, class OnToken>
  void each_of_normal(std::string_view text, bool is_first, const OnPiece& on_piece, const OnToken& on_token);
  template <class Take>
  void each_piece(std::string_view text, std::size_t from, std::size_t to, bool is_first, const Take& take) const;
  template <class Take>
  void each_marked(std::string_view text, std::size_t begin, std::size_t end, bool begins_text, const Take& take) const;
  void cut(std::string_view word);
  void add_unknown(std::string_view word, std::size_t begin, std::size_t end);
  void add_piece(std::string_view text, const Piece& piece, std::vector<std::int32_t>& ids);
  void set_word(std::string_view text, const Piece& piece);

  const UnigramModel& model_;
  const AddedTokens &added_, &normalized_;
  NormalizedText unused_;
  std::string valid_, word_;
  std::unique_ptr<OriginText> normal_, other_;
  std::vector<TokenSpan> word_origins_;
  std::vector<Path> paths_;
  std::vector<Token> tokens_;  // of a word, the last first until cut() reverses them
  WordCache<FewIds> cache_{16};
};

}  // namespace bert_hpc::tokenize
