// Tokens that were added to a vocabulary, such as "[E1]": text is split at them before all else, as Hugging Face's
// tokenizers library does. Tokens that are not `normalized` are searched for in the text as it is, and then the others
// in what lies between, after the normalizer if there is one; of several at one position the longest counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/byte_trie.hpp"
#include "bert_hpc/tokenize/characters.hpp"
#include "bert_hpc/tokenize/composition.hpp"
#include "bert_hpc/tokenize/text_form.hpp"

namespace bert_hpc::tokenize {

struct AddedToken {
  std::string content{};
  std::int32_t id = -1;                 ///< -1: not stated
  bool single_word = false;             ///< no letter, digit, mark or underscore may stand before or after it
  bool lstrip = false, rstrip = false;  ///< blanks before it, or after it, belong to the token
  bool normalized = false;              ///< both content and text are normalized before the search
  bool special = false;

  bool operator==(const AddedToken&) const = default;
};

/// Gives ids to tokens that have none, and sorts them: a token that is a piece has the piece's id; others have the ids
/// behind the vocabulary, in their order. Returns problems, each a sentence: of tokens with another id, or one that is
/// not UTF-8. Tokens without content and repeated ones are removed, and so are `implied` ones, special tokens that
/// every vocabulary of the kind has.
std::vector<std::string> settle_added_tokens(const std::vector<std::string>& pieces, std::vector<AddedToken>& tokens,
                                             std::span<const char* const> implied);

/// Lines that say what of added tokens decides on ids, for vocabulary_hash().
std::vector<std::string> hashed_lines(const std::vector<AddedToken>& tokens);

/// Replaces `normalized` by what BERT's normalizer makes of the text. Marks are not reordered.
void normalize(std::string_view text, const TextForm& form, NormalizedText& normalized);

/// A part of a text: of the text itself, or of a stretch of it that was normalized.
struct TextPart {
  std::string_view text;
  std::string_view stretch{};                  ///< of the text itself, if normalized
  const NormalizedText* normalized = nullptr;  ///< what the stretch became; null: `text` is a part of the text itself
};

/// Immutable; shared by encoders of several threads.
class AddedTokens {
 public:
  /// Tokens with ids; special tokens of the vocabulary are among them. `form`: of BERT's normalizer, if that is the one
  /// of the text; `composes`: the normalizer is Unicode's normal form C. Throws Error(data) if they are too long in
  /// all.
  AddedTokens(std::vector<AddedToken> tokens, const std::optional<TextForm>& form, bool composes = false);

  /// Calls on_text(const TextPart&) for each part without tokens, none of them empty, and on_token(id, const TextPart&)
  /// for each token, in order. Text of BERT's is normalized for the search alone, and text that is composed in all
  /// parts. `buffer`: the caller's, one for each thread.
  template <class OnText, class OnToken>
  void split(std::string_view text, NormalizedText& buffer, OnText&& on_text, OnToken&& on_token) const {
    search(
        as_it_is_, text,
        [&](std::string_view stretch) {
          if (form_ ? normalized_.is_empty() : !composes_ || is_composed(stretch)) {
            return search(
                normalized_, stretch, [&](std::string_view own) { on_text(TextPart{own}); },
                [&](std::int32_t id, std::string_view own) { on_token(id, TextPart{own}); });
          }
          form_ ? normalize(stretch, *form_, buffer) : compose(stretch, buffer);
          const auto part = [&](std::string_view own) { return TextPart{own, stretch, &buffer}; };
          search(
              normalized_, buffer.bytes, [&](std::string_view own) { on_text(part(own)); },
              [&](std::int32_t id, std::string_view own) { on_token(id, part(own)); });
        },
        [&](std::int32_t id, std::string_view own) { on_token(id, TextPart{own}); });
  }

 private:
  /// Tokens of one kind of text.
  struct Searched {
    std::vector<AddedToken> tokens{};
    ByteTrie trie{};
    std::array<std::uint64_t, 1024> pairs{};  // bit a << 8 | b: a token begins with the bytes a and b

    bool is_empty() const { return tokens.empty(); }
    bool may_begin(unsigned char first, unsigned char second) const {
      const unsigned pair = static_cast<unsigned>(first) << 8 | second;
      return pairs[pair >> 6] >> (pair & 63) & 1;
    }
  };
  struct Found {
    std::size_t begin, end;  // end of the match, where the search resumes; begin = the text's size: none
    const AddedToken* token;
  };

  static Searched searched(std::vector<AddedToken> tokens, const std::vector<std::string>& contents);
  /// The next match from `from` on.
  static Found find(const Searched& tokens, std::string_view text, std::size_t from);
  /// Whether the match stands between other words, if it must.
  static bool stands_alone(const Found& found, std::string_view text);
  static std::size_t blanks_before(std::string_view text, std::size_t end);
  static std::size_t blanks_after(std::string_view text, std::size_t begin);

  template <class OnText, class OnToken>
  static void search(const Searched& tokens, std::string_view text, OnText&& on_text, OnToken&& on_token) {
    std::size_t done = 0, from = tokens.is_empty() ? text.size() : 0;
    while (from < text.size()) {
      const Found found = find(tokens, text, from);
      if (found.begin == text.size()) break;
      from = found.end;
      if (!stands_alone(found, text)) continue;
      const std::size_t end = found.token->rstrip ? blanks_after(text, found.end) : found.end;
      const std::size_t first = found.token->lstrip ? blanks_before(text, found.begin) : found.begin;
      const std::size_t begin = std::min(std::max(done, first), end);
      if (done < begin) on_text(text.substr(done, begin - done));
      on_token(found.token->id, text.substr(begin, end - begin));
      done = std::max(done, end);
    }
    if (done < text.size()) on_text(text.substr(done));
  }

  std::optional<TextForm> form_;
  bool composes_;
  Searched as_it_is_, normalized_;
};

}  // namespace bert_hpc::tokenize
