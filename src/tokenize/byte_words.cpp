#include "bert_hpc/tokenize/byte_words.hpp"

namespace bert_hpc::tokenize {
namespace {

struct ClassRun {
  char32_t first, last;
  int kind;
};

#include "character_classes.inc"

using Class = CharacterClass;

/// Bytes of a contraction that begins at the apostrophe `p`: 's, 't, 're, 've, 'm, 'll, 'd; 0 if none does.
int contraction(const char* p, const char* end, bool any_case) {
  const auto at = [&](std::ptrdiff_t i) {
    const char letter = i < end - p ? p[i] : '\0';
    return any_case && letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  };
  switch (at(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return at(2) == 'e' ? 3 : 0;
    case 'l':
      return at(2) == 'l' ? 3 : 0;
    default:
      // The long s is an s in another case.
      return any_case && static_cast<unsigned char>(at(1)) == 0xC5 && static_cast<unsigned char>(at(2)) == 0xBF ? 3 : 0;
  }
}

bool is_line_end(char byte) {
  return byte == '\r' || byte == '\n';
}

}  // namespace

const std::vector<CharacterClass>& character_classes() {
  static const std::vector<CharacterClass> classes = [] {
    std::vector<CharacterClass> made(0x110000, Class::other);
    for (const ClassRun& run : class_runs) {
      for (char32_t point = run.first; point <= run.last; ++point) made[point] = static_cast<Class>(run.kind);
    }
    return made;
  }();
  return classes;
}

/// The last of a run of blanks is left to the word behind it, if there is one, unless it is alone.
const char* ByteWords::end_of_blanks(const char* p, const char* end) const {
  const char* last = p;
  const char* at = p;
  while (at != end) {
    const char* next = at;
    if (next_class(next, end) != Class::blank) return last == p ? at : last;
    last = at;
    at = next;
  }
  return end;
}

const char* ByteWords::end_of_gpt2_word(const char* p, const char* end) const {
  if (*p == '\'') {
    if (const int size = contraction(p, end, false); size > 0) return p + size;
  }
  const char* begin = p;
  if (*p == ' ' && p + 1 != end) ++begin;
  const char* at = begin;
  const Class kind = next_class(at, end);
  return kind == Class::blank ? end_of_blanks(p, end) : end_of_run(at, end, kind);
}

const char* ByteWords::end_of_cl100k_word(const char* p, const char* end) const {
  if (*p == '\'') {
    if (const int size = contraction(p, end, true); size > 0) return p + size;
  }
  const char* second = p;
  const Class first = next_class(second, end);
  if (first == Class::letter) return end_of_run(second, end, Class::letter);
  if (first == Class::number) {
    const int most = pattern_ == WordPattern::cl100k ? 3 : 1;
    for (int i = 1; i < most && second != end; ++i) {
      const char* next = second;
      if (next_class(next, end) != Class::number) break;
      second = next;
    }
    return second;
  }
  const char* third = second;
  const Class behind = second == end ? Class::blank : next_class(third, end);
  if (behind == Class::letter && !is_line_end(*p)) return end_of_run(third, end, Class::letter);
  if (first == Class::other || (*p == ' ' && second != end && behind == Class::other)) {
    const char* at = end_of_run(second, end, Class::other);
    while (at != end && is_line_end(*at)) ++at;
    return at;
  }
  const char* behind_lines = nullptr;  // the last line end of the blanks
  for (const char* at = p; at != end;) {
    const char* next = at;
    if (next_class(next, end) != Class::blank) break;
    if (is_line_end(*at)) behind_lines = next;
    at = next;
  }
  return behind_lines != nullptr ? behind_lines : end_of_blanks(p, end);
}

}  // namespace bert_hpc::tokenize
