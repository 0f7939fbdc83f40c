// Text is nearly always ASCII, which decomposition and accents leave as it is. Which characters change is the library's
// answer, as its Unicode is older than that of utf8proc; what they become is the same in every version.
#include "character_steps.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "bert_hpc/tokenize/characters.hpp"
#include "bert_hpc/tokenize/composition.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {
namespace {

constexpr std::size_t longest_decomposition = 18;  // characters: that of U+FDFA

struct CharacterRange {
  char32_t first, last;
};

#include "character_ranges.inc"

template <std::size_t count>
bool is_in(const CharacterRange (&ranges)[count], char32_t point) {
  const auto* const behind = std::upper_bound(std::begin(ranges), std::end(ranges), point,
                                              [](char32_t p, const CharacterRange& range) { return p < range.first; });
  return behind != std::begin(ranges) && point <= (behind - 1)->last;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

int combining_class(char32_t point) {
  if (!is_in(ordered, point)) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(point))->combining_class;
}

void append(char32_t point, const TokenSpan* origin, OriginText& to) {
  char bytes[4];
  const auto size = static_cast<std::size_t>(encode_utf8(point, bytes) - bytes);
  to.bytes.append(bytes, size);
  if (origin != nullptr) to.origins.insert(to.origins.end(), size, *origin);
}

/// Calls on_character(point, offset, size) for each character of the text.
template <class OnCharacter>
void each_character(std::string_view text, const OnCharacter& on_character) {
  const auto *const begin = reinterpret_cast<const unsigned char*>(text.data()), *const end = begin + text.size();
  for (const unsigned char* at = begin; at != end;) {
    const auto offset = static_cast<std::size_t>(at - begin);
    const char32_t point = decode_utf8(at, end);
    on_character(point, offset, static_cast<std::size_t>(at - begin) - offset);
  }
}

/// Characters of decompositions, put in canonical order up to the next one of class 0. As the library counts them, the
/// first character of each decomposition has the origin of the next character of the text, in the order in which they
/// are written, and the others that of the one before.
class Decomposer {
 public:
  Decomposer(const OriginText& text, OriginText& to) : text_(text), to_(to) {}

  void add(char32_t point) {
    if (!is_in(decomposed, point)) return put(point, true);
    std::array<utf8proc_int32_t, longest_decomposition> parts{};
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(point), parts.data(), std::ssize(parts),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT), &boundary);
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      put(static_cast<char32_t>(parts[static_cast<std::size_t>(i)]), i == 0);
    }
  }
  /// Writes what waits for its order.
  void finish() {
    std::stable_sort(waiting_.begin(), waiting_.end(), [](const Part& a, const Part& b) { return a.order < b.order; });
    for (const Part& part : waiting_) write(part);
    waiting_.clear();
  }

 private:
  struct Part {
    char32_t point;
    int order;  // its combining class
    bool is_first;
  };

  void put(char32_t point, bool is_first) {
    const int order = combining_class(point);
    if (order == 0) finish();
    waiting_.push_back({point, order, is_first});
  }
  void write(const Part& part) {
    if (text_.origins.empty()) return append(part.point, nullptr, to_);
    const std::size_t at = part.is_first ? next_ : next_ - 1;
    append(part.point, &text_.origins[at], to_);
    if (part.is_first) next_ += character_size(text_.bytes, next_);
  }

  const OriginText& text_;
  OriginText& to_;
  std::vector<Part> waiting_;
  std::size_t next_ = 0;  // byte of the next character whose origin is taken
};

void compose(const OriginText& text, OriginText& to) {
  NormalizedText composed;
  tokenize::compose(text.bytes, composed);
  to.bytes += composed.bytes;
  if (text.origins.empty()) return;
  std::vector<std::size_t> offsets;  // of the text's characters
  each_character(text.bytes, [&](char32_t, std::size_t offset, std::size_t) { offsets.push_back(offset); });
  std::size_t character = 0;
  each_character(composed.bytes, [&](char32_t, std::size_t, std::size_t size) {
    const auto number = static_cast<std::size_t>(composed.origins[character++]);
    to.origins.insert(to.origins.end(), size, text.origins[offsets[number]]);
  });
}

void decompose(const OriginText& text, OriginText& to) {
  Decomposer decomposer(text, to);
  each_character(text.bytes, [&](char32_t point, std::size_t, std::size_t) { decomposer.add(point); });
  decomposer.finish();
}

void strip_accents(const OriginText& text, OriginText& to) {
  each_character(text.bytes, [&](char32_t point, std::size_t offset, std::size_t size) {
    if (is_in(stripped, point)) return;
    to.bytes.append(text.bytes, offset, size);
    if (!text.origins.empty()) to.origins.insert(to.origins.end(), size, text.origins[offset]);
  });
}

void lowercase(const OriginText& text, OriginText& to) {
  if (is_ascii(text.bytes)) {
    to.origins.insert(to.origins.end(), text.origins.begin(), text.origins.end());
    for (const char c : text.bytes) to.bytes += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    return;
  }
  const CharacterTable& table = character_table();
  each_character(text.bytes, [&](char32_t point, std::size_t offset, std::size_t) {
    char32_t scratch[4];
    for (const char32_t form : table.lower_form(point, scratch)) {
      append(form, text.origins.empty() ? nullptr : &text.origins[offset], to);
    }
  });
}

}  // namespace

bool leaves(CharacterStep step, std::string_view text) {
  if (step == CharacterStep::compose) return is_composed(text);
  if (!is_ascii(text)) return false;
  return step != CharacterStep::lowercase || std::none_of(text.begin(), text.end(), is_upper);
}

void apply(CharacterStep step, const OriginText& text, OriginText& to) {
  switch (step) {
    case CharacterStep::compose:
      return compose(text, to);
    case CharacterStep::decompose:
      return decompose(text, to);
    case CharacterStep::strip_accents:
      return strip_accents(text, to);
    case CharacterStep::lowercase:
      return lowercase(text, to);
  }
}

}  // namespace bert_hpc::tokenize
