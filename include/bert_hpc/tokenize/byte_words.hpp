// Words of byte-level BPE: text cut by one of the patterns that Hugging Face's tokenizers have as regular expressions.
// A blank belongs to the word behind it. Letters, numbers and blanks are what `tokenizers` takes for them, asked about
// every code point by src/tokenize/generate_classes.py.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {

enum class WordPattern : std::uint8_t {
  gpt2,     ///< ByteLevel with use_regex
  cl100k,   ///< a Split before ByteLevel, with at most three digits a word (GPT-4, Llama 3)
  cl100k1,  ///< the same with one digit a word (Qwen 2)
  whole,    ///< ByteLevel without use_regex: a text is one word
};

struct NamedPattern {
  WordPattern pattern;
  const char* regex;  ///< of a Split; "" for those of ByteLevel itself
};
inline constexpr std::array<NamedPattern, 2> split_patterns{{
    {WordPattern::cl100k,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {WordPattern::cl100k1, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                           R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
}};

enum class CharacterClass : std::uint8_t { other, letter, number, blank };

/// Immutable table of all code points; 1.1 MB. The one of the program, made at first use; safe from several threads.
const std::vector<CharacterClass>& character_classes();

/// Bytes of the blank at `offset`, as Rust's char::is_whitespace has it; 0: none is there.
inline std::size_t blank_size(std::string_view text, std::size_t offset) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data()) + offset;
  const unsigned char* at = begin;
  const char32_t point = decode_utf8(at, reinterpret_cast<const unsigned char*>(text.data()) + text.size());
  return character_classes()[point] == CharacterClass::blank ? static_cast<std::size_t>(at - begin) : 0;
}

/// Cuts well-formed UTF-8 into words, none of them empty, which together are the text.
class ByteWords {
 public:
  explicit ByteWords(WordPattern pattern) : pattern_(pattern), classes_(character_classes().data()) {}

  /// Calls on_word(std::string_view) for each word, in order.
  template <class OnWord>
  void split(std::string_view text, OnWord&& on_word) const {
    const char* p = text.data();
    const char* const end = p + text.size();
    if (pattern_ == WordPattern::whole) {
      if (p != end) on_word(text);
      return;
    }
    while (p != end) {
      const char* const next = pattern_ == WordPattern::gpt2 ? end_of_gpt2_word(p, end) : end_of_cl100k_word(p, end);
      on_word(std::string_view(p, static_cast<std::size_t>(next - p)));
      p = next;
    }
  }

 private:
  /// Class of the character at `p`, which is moved past it.
  CharacterClass next_class(const char*& p, const char* end) const {
    const auto lead = static_cast<unsigned char>(*p);
    if (lead < 0x80) {
      ++p;
      return classes_[lead];
    }
    const auto* at = reinterpret_cast<const unsigned char*>(p);
    const char32_t point = decode_utf8(at, reinterpret_cast<const unsigned char*>(end));
    p = reinterpret_cast<const char*>(at);
    return classes_[point];
  }
  /// End of the run of characters of this class from `p` on.
  const char* end_of_run(const char* p, const char* end, CharacterClass kind) const {
    while (p != end) {
      const char* next = p;
      if (next_class(next, end) != kind) break;
      p = next;
    }
    return p;
  }
  const char* end_of_gpt2_word(const char* p, const char* end) const;
  const char* end_of_cl100k_word(const char* p, const char* end) const;
  const char* end_of_blanks(const char* p, const char* end) const;

  WordPattern pattern_;
  const CharacterClass* classes_;
};

}  // namespace bert_hpc::tokenize
