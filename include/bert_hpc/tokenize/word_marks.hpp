// Text that is normalized and cut into words whose blanks are the character "▁", as SentencePiece's models have it
// (Kudo and Richardson 2018, arXiv:1808.06226), with Hugging Face's steps: normalizers, WhitespaceSplit,
// Punctuation, Split, Metaspace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/added_tokens.hpp"
#include "bert_hpc/tokenize/byte_words.hpp"
#include "bert_hpc/tokenize/origin_text.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {

class CharacterMap;

/// The character before words, U+2581.
inline constexpr std::string_view word_mark = "\xE2\x96\x81";

/// A step of the normalizer.
struct TextStep {
  enum class Kind {
    map,            ///< by the CharacterMap
    strip,          ///< blanks at the ends go
    merge_runs,     ///< two or more spaces become `to`
    merge_blanks,   ///< two or more blanks become `to`, and so does a line end or a tab
    replace,        ///< `from` becomes `to`
    prepend,        ///< `to` is put before a text that is not empty
    compose,        ///< canonical composition (NFC)
    decompose,      ///< compatibility decomposition (NFKD)
    strip_accents,  ///< combining marks go
    lowercase,
  };
  Kind kind = Kind::map;
  bool left = false, right = false;  ///< strip: which ends
  std::string from{}, to{};

  bool operator==(const TextStep&) const = default;
};

/// Texts before which Metaspace puts "▁", unless they begin with it or with a space.
enum class WordMark { always, first, never };

/// Rules by which text becomes words. Immutable; shared by threads.
struct WordMarks {
  std::shared_ptr<const CharacterMap> map{};  ///< of the steps; leaves all text as it is without a table
  std::vector<TextStep> steps{};
  bool splits_blanks = false;       ///< text is cut at blanks, which go, before spaces become "▁"
  bool splits_punctuation = false;  ///< text is cut around each punctuation mark, before spaces become "▁"
  bool splits_spaces = false;       ///< text is cut behind each space
  bool has_metaspace = true;        ///< spaces become "▁", as `mark` and `splits_marks` say
  bool splits_marks = true;         ///< text is cut before each "▁"
  WordMark mark = WordMark::always;

  bool operator==(const WordMarks&) const = default;
};

/// The text that the steps make of one in UTF-8.
std::string normalized_text(const WordMarks& marks, std::string_view text);

/// The added tokens of a tokenizer, as they are searched for: in the text, or in what the steps make of it.
struct SearchedTokens {
  explicit SearchedTokens(const std::vector<AddedToken>& tokens, const WordMarks& marks);
  AddedTokens as_they_are, normalized;
};

/// Cuts texts into words and added tokens; each thread has its own. Marks and tokens must outlive it.
class MarkedWords {
 public:
  /// A part of a normalized text. A "▁" stands before it if has_mark; `mark` is the byte of the text that it was, or
  /// −1.
  struct Piece {
    std::size_t begin = 0, end = 0;
    bool has_mark = false;
    std::ptrdiff_t mark = -1;
  };

  MarkedWords(const WordMarks& marks, const SearchedTokens& tokens);
  ~MarkedWords();

  /// Calls on_piece(normal, piece) for each word, a piece of the normalized text `normal`, and on_token(id) for each
  /// added token, in order. `text` is UTF-8; each malformed part is read as U+FFFD.
  template <class OnPiece, class OnToken>
  void split(std::string_view text, const OnPiece& on_piece, const OnToken& on_token) {
    const std::string_view whole = valid(text);
    const auto on_text = [&](const TextPart& part) {
      std::string_view own = part.text;
      normal_->origins.clear();
      if (changes(own)) {
        // The origins show whether a piece begins the text.
        normalize(own, marks_.has_metaspace && marks_.mark == WordMark::first);
        own = normal_->bytes;
      }
      each_of_normal(
          own, part.text.data() == whole.data(), [&](const Piece& piece) { on_piece(own, piece); },
          [&](std::int32_t id, std::size_t, std::size_t) { on_token(id); });
    };
    tokens_.as_they_are.split(whole, unused_, on_text, [&](std::int32_t id, const TextPart&) { on_token(id); });
  }

  /// The same with on_piece(normal, piece, before), where `before` is the number of characters of the text before the
  /// part that `normal` was made of, to which origins() are relative; and on_token(id, span).
  template <class OnPiece, class OnToken>
  void split_with_spans(std::string_view text, const OnPiece& on_piece, const OnToken& on_token) {
    const std::string_view whole = valid(text);
    std::int32_t before = 0;
    const auto on_normal_token = [&](std::int32_t id, std::size_t from, std::size_t to) {
      const TokenSpan last = normal_->origins[to - 1];
      // Blanks that a token before it took may leave nothing of it.
      const TokenSpan first = from < to ? normal_->origins[from] : TokenSpan{last.end, last.end};
      on_token(id, TokenSpan{before + first.begin, before + last.end});
    };
    const auto on_text = [&](const TextPart& part) {
      normalize(part.text, true);
      const std::string_view own = normal_->bytes;
      each_of_normal(
          own, before == 0, [&](const Piece& piece) { on_piece(own, piece, before); }, on_normal_token);
      before += static_cast<std::int32_t>(count_characters(part.text));
    };
    const auto on_token_of_text = [&](std::int32_t id, const TextPart& part) {
      const auto size = static_cast<std::int32_t>(count_characters(part.text));
      on_token(id, TokenSpan{before, before + size});
      before += size;
    };
    tokens_.as_they_are.split(whole, unused_, on_text, on_token_of_text);
  }

  /// The piece with its mark, as the model reads it: a part of `normal`, or a copy that is valid until the next call.
  std::string_view word(std::string_view normal, const Piece& piece);
  /// (bytes of the latest word()): the characters that they stand for. Only within split_with_spans().
  const TokenSpan* origins() const { return word_origins_; }

 private:
  std::string_view valid(std::string_view text);
  bool changes(std::string_view text) const;
  void normalize(std::string_view text, bool with_origins);
  static bool is_punctuation(std::string_view text, std::size_t at);

  /// take(piece) for the pieces of text[begin, end). begins_text: the whole text begins with it.
  template <class Take>
  void each_marked(std::string_view text, std::size_t begin, std::size_t end, bool begins_text,
                   const Take& take) const {
    if (begin == end) return;
    if (!marks_.has_metaspace) return take(Piece{.begin = begin, .end = end});
    const auto mark_size = [&](std::size_t at) -> std::size_t {
      if (text[at] == ' ') return 1;
      return text.substr(at, word_mark.size()) == word_mark ? word_mark.size() : 0;
    };
    Piece piece{.begin = begin, .end = begin};
    if (const std::size_t size = mark_size(begin); size > 0) {
      piece = {.begin = begin + size, .end = begin, .has_mark = true, .mark = static_cast<std::ptrdiff_t>(begin)};
    } else {
      piece.has_mark = marks_.mark == WordMark::always || (marks_.mark == WordMark::first && begins_text);
    }
    if (marks_.splits_marks) {
      for (std::size_t at = piece.begin; at < end;) {
        const std::size_t size = mark_size(at);
        if (size == 0) {
          ++at;
          continue;
        }
        piece.end = at;
        take(piece);
        piece = {.begin = at + size, .end = at, .has_mark = true, .mark = static_cast<std::ptrdiff_t>(at)};
        at += size;
      }
    }
    piece.end = end;
    take(piece);
  }

  /// take(piece) for the pieces of a part [from, to) of normal text. `is_first`: the text was made of the first part of
  /// the whole text.
  template <class Take>
  void each_piece(std::string_view text, std::size_t from, std::size_t to, bool is_first, const Take& take) const {
    const auto begins_text = [&](std::size_t begin) {
      return is_first && (normal_->origins.empty() ? begin == 0 : normal_->origins[begin].begin == 0);
    };
    if (marks_.splits_spaces) {
      for (std::size_t at = from; at < to;) {
        const std::size_t space = std::min(text.find(' ', at), to - 1);
        each_marked(text, at, space + 1, begins_text(at), take);
        at = space + 1;
      }
      return;
    }
    if (!marks_.splits_blanks && !marks_.splits_punctuation) {
      return each_marked(text, from, to, begins_text(from), take);
    }
    const auto split_blank = [&](std::size_t at) { return marks_.splits_blanks ? blank_size(text, at) : 0; };
    const auto stands_alone = [&](std::size_t at) { return marks_.splits_punctuation && is_punctuation(text, at); };
    for (std::size_t at = from; at < to;) {
      if (const std::size_t size = split_blank(at); size > 0) {
        at += size;
        continue;
      }
      const std::size_t begin = at;
      at += character_size(text, at);
      if (!stands_alone(begin)) {
        while (at < to && split_blank(at) == 0 && !stands_alone(at)) at += character_size(text, at);
      }
      each_marked(text, begin, at, begins_text(begin), take);
    }
  }

  /// on_piece(piece) for the pieces between the added tokens that are searched for in normal text, on_token(id, from,
  /// to) for these tokens and their bytes.
  template <class OnPiece, class OnToken>
  void each_of_normal(std::string_view text, bool is_first, const OnPiece& on_piece, const OnToken& on_token) {
    const auto offset = [&](const TextPart& part) { return static_cast<std::size_t>(part.text.data() - text.data()); };
    const auto on_text = [&](const TextPart& part) {
      const std::size_t from = offset(part);
      each_piece(text, from, from + part.text.size(), is_first, on_piece);
    };
    tokens_.normalized.split(text, unused_, on_text, [&](std::int32_t id, const TextPart& part) {
      on_token(id, offset(part), offset(part) + part.text.size());
    });
  }

  const WordMarks& marks_;
  const SearchedTokens& tokens_;
  NormalizedText unused_;
  std::string valid_, word_;
  std::unique_ptr<OriginText> normal_, other_;
  std::vector<TokenSpan> copied_origins_;
  const TokenSpan* word_origins_ = nullptr;
};

}  // namespace bert_hpc::tokenize
