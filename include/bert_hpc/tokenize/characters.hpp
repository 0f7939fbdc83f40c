// What BERT's normalizer and pre-tokenizer do with a character: dropped, a blank, a word by itself, replaced by its
// lower-cased and stripped form. The answers are those of Hugging Face's `tokenizers`, asked about every code point by
// src/tokenize/generate_tables.py; a Unicode library would differ from them on hundreds of characters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bert_hpc::tokenize {

namespace character_flag {
inline constexpr std::uint8_t space = 1;
inline constexpr std::uint8_t removed = 2;      ///< control, format, private use, U+FFFD
inline constexpr std::uint8_t cjk = 4;          ///< an ideograph: a word by itself
inline constexpr std::uint8_t punctuation = 8;  ///< a word by itself
inline constexpr std::uint8_t mark = 16;        ///< a combining mark, stripped from uncased text
inline constexpr std::uint8_t barrier = 32;     ///< stripped too, but other marks are not reordered across it
inline constexpr std::uint8_t reordered = 64;   ///< a mark that stays and is put in canonical order (`reorder_rank`)
inline constexpr std::uint8_t mapped = 128;     ///< has another form in uncased text (`uncased_form`)
}  // namespace character_flag

/// Immutable table of all code points; 1.8 MB. Get it by `character_table()`.
class CharacterTable {
 public:
  CharacterTable();

  /// Flags of `point`, which is a code point (< 0x110000).
  std::uint8_t flags(char32_t point) const { return flags_[point]; }

  /// Lower-cased, decomposed and stripped form of a `mapped` character: 1 to 4 code points, never empty. `scratch`
  /// holds the answer where it is computed.
  std::span<const char32_t> uncased_form(char32_t point, char32_t (&scratch)[4]) const;

  /// Lower-cased form with its accents: 1 or 2 code points; the point itself where it has no other. `scratch` as above.
  std::span<const char32_t> lower_form(char32_t point, char32_t (&scratch)[4]) const;

  /// Order of a `reordered` character among its neighbours of that kind: stable, ascending.
  int reorder_rank(char32_t point) const;

 private:
  std::vector<std::uint8_t> flags_;  // (0x110000)
  std::vector<char32_t> single_;     // (points below single_limit): the form where it is one character, else 0
  std::vector<char32_t> lower_;      // (points below lower_limit): the lower-cased form, else 0
};

/// The one table of the program, made at first use (about a millisecond); safe from several threads.
const CharacterTable& character_table();

/// The library whose answers the table holds: "tokenizers 0.23.3".
const char* character_table_source();

}  // namespace bert_hpc::tokenize
