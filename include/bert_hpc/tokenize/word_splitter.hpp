// Splits text into words as BERT's basic tokenizer does: drops control characters, isolates punctuation and
// ideographs, and lower-cases, decomposes and strips accents, as the text's form asks. One pass, no allocation; plain
// ASCII words, which are nearly all of English text, never leave a table-driven loop. See characters.hpp for whose
// rules these are.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/characters.hpp"
#include "bert_hpc/tokenize/text_form.hpp"

namespace bert_hpc::tokenize {

/// Words of more characters than this are unknown words.
inline constexpr int longest_word = 100;

/// A normalized word, and what of the text it was made from. At least 16 zero bytes follow `bytes[size]`; no word
/// contains a zero byte.
struct Word {
  const char* bytes;
  int size;                     ///< bytes; at most 4 · longest_word
  bool too_long;                ///< more than `longest_word` characters, the rest was dropped
  const unsigned char* source;  ///< where in the text reading it began
  std::int32_t characters;      ///< of the text from `source` to the word's end
  /// For each normalized character the number of the character that it was made from, from 0 at `source`; null where
  /// each stands for itself.
  const std::int32_t* origins;
};

class WordSplitter {
 public:
  /// `specials`: texts such as "[MASK]", each beginning with '[', that are recognised in raw text before anything else.
  WordSplitter(const TextForm& form, std::vector<std::string> specials);

  /// Calls `on_word(const Word&)` for each word of `text` (UTF-8, may be malformed), and `on_special(index, begin)` for
  /// each special text, in order. A Word's bytes are valid during the call only.
  template <class OnWord, class OnSpecial>
  void split(std::string_view text, OnWord&& on_word, OnSpecial&& on_special) {
    const auto* p = reinterpret_cast<const unsigned char*>(text.data());
    const unsigned char* const end = p + text.size();
    while (p < end) {
      switch (ascii_[*p].kind) {
        case Kind::letter: {
          const unsigned char* const start = p;
          int size = 0;
          do {
            if (size <= longest_word) buffer_[static_cast<std::size_t>(size++)] = ascii_[*p].fold;
          } while (++p < end && ascii_[*p].kind == Kind::letter);
          if (p < end && (ascii_[*p].kind == Kind::removed || ascii_[*p].kind == Kind::other)) {
            p = start;
            const Word word = unicode_word(p, end);
            if (word.size > 0) on_word(word);
          } else {
            on_word(finish(size, size > longest_word, start, static_cast<std::int32_t>(p - start)));
          }
          break;
        }
        case Kind::space:
        case Kind::removed:
          ++p;
          break;
        case Kind::bracket:
          if (const int special = special_at(p, end); special >= 0) {
            on_special(special, p);
            p += specials_[static_cast<std::size_t>(special)].size();
            break;
          }
          [[fallthrough]];
        case Kind::punctuation:
          buffer_[0] = static_cast<char>(*p);
          on_word(finish(1, false, p, 1));
          ++p;
          break;
        case Kind::other: {
          const Word word = unicode_word(p, end);
          if (word.size > 0) on_word(word);
          break;
        }
      }
    }
  }

 private:
  enum class Kind : std::uint8_t { letter, space, removed, punctuation, bracket, other };
  struct Ascii {
    Kind kind;
    char fold;  // the lower-cased letter where text is uncased
  };

  Word finish(int size, bool too_long, const unsigned char* source, std::int32_t characters,
              const std::int32_t* origins = nullptr) {
    std::memset(buffer_.data() + size, 0, 16);
    return {buffer_.data(), size, too_long, source, characters, origins};
  }

  int special_at(const unsigned char* p, const unsigned char* end) const;

  /// Reads at least one character from `p` and at most one word, which is empty if nothing of it remains.
  Word unicode_word(const unsigned char*& p, const unsigned char* end);
  bool is_punctuation(char32_t point, std::uint8_t flags) const;
  void append(char32_t point);
  void append_one(char32_t point);
  Word encode(const unsigned char* source);

  const CharacterTable& table_;
  bool lowercase_, strips_, ideographs_alone_;  // strips_: lower-cases and strips accents; else lowercase_ alone
  std::vector<std::string> specials_;
  std::array<Ascii, 256> ascii_{};
  std::array<char, 4 * (longest_word + 1) + 16> buffer_{};

  // The word that unicode_word() is reading.
  std::array<char32_t, longest_word + 1> points_{};
  std::array<int, longest_word + 1> ranks_{};  // of reordered marks; 0 for all else
  std::array<std::int32_t, longest_word + 1> origins_{};
  std::int32_t origin_ = 0;       // of the character that is being appended
  std::int32_t last_origin_ = 0;  // of the word's last character
  int count_ = 0;
  int barrier_ = 0;  // marks are not moved before this position
};

}  // namespace bert_hpc::tokenize
