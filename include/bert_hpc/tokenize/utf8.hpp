// UTF-8 in and out. Malformed input never fails: it is read as Python reads it with errors="replace", one U+FFFD for
// each maximal part of a sequence that could have been well formed (Unicode 15, chapter 3.9, "substitution of maximal
// subparts").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bert_hpc::tokenize {

inline constexpr char32_t replacement_character = 0xFFFD;

/// Decodes one character of [begin, end), which is not empty, and moves `begin` past it.
inline char32_t decode_utf8(const unsigned char*& begin, const unsigned char* end) {
  const unsigned char lead = *begin++;
  if (lead < 0x80) return lead;
  if (lead < 0xC2 || lead > 0xF4) return replacement_character;
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t point = lead & (0x3F >> more);
  for (int i = 0; i < more; ++i) {
    if (begin == end || *begin < low || *begin > high) return replacement_character;
    point = point << 6 | (*begin++ & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return point;
}

/// Bytes of the character at `offset`, before the text's end; a malformed part counts as one.
inline std::size_t character_size(std::string_view text, std::size_t offset = 0) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data()) + offset;
  const unsigned char* at = begin;
  decode_utf8(at, begin + (text.size() - offset));
  return static_cast<std::size_t>(at - begin);
}

/// Writes `point` at `out` (room for 4 bytes) and returns the end.
inline char* encode_utf8(char32_t point, char* out) {
  if (point < 0x80) {
    *out++ = static_cast<char>(point);
  } else if (point < 0x800) {
    *out++ = static_cast<char>(0xC0 | point >> 6);
    *out++ = static_cast<char>(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    *out++ = static_cast<char>(0xE0 | point >> 12);
    *out++ = static_cast<char>(0x80 | (point >> 6 & 0x3F));
    *out++ = static_cast<char>(0x80 | (point & 0x3F));
  } else {
    *out++ = static_cast<char>(0xF0 | point >> 18);
    *out++ = static_cast<char>(0x80 | (point >> 12 & 0x3F));
    *out++ = static_cast<char>(0x80 | (point >> 6 & 0x3F));
    *out++ = static_cast<char>(0x80 | (point & 0x3F));
  }
  return out;
}

/// Whether `text` is well-formed UTF-8.
bool is_valid_utf8(std::string_view text);

/// `text` with U+FFFD for each malformed part.
std::string valid_utf8(std::string_view text);

/// Characters of `text`, a malformed part counting as one.
std::int64_t count_characters(std::string_view text);

}  // namespace bert_hpc::tokenize
