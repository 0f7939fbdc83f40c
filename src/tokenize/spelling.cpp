#include "bert_hpc/tokenize/spelling.hpp"

#include <utf8proc.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {
namespace {

bool separates(char32_t point) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(point));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP ||
         category == UTF8PROC_CATEGORY_CC;
}

bool is_invisible(char32_t point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(point)) == UTF8PROC_CATEGORY_CF;
}

bool is_mark(char32_t point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(point)) == UTF8PROC_CATEGORY_MN;
}

/// Case-folded and composed, without characters that are ignored by default.
std::string folded(const std::string& text) {
  constexpr auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE);
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), std::ssize(text), &mapped, options);
  core::require(size >= 0, "valid UTF-8 has a case-folded form");
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  return {reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size)};
}

}  // namespace

std::string spelling_key(std::string_view name) {
  const std::string text = folded(valid_utf8(name));
  std::string key;
  bool blank = false;
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at != end) {
    const auto* const begin = at;
    const char32_t point = decode_utf8(at, end);
    if (is_invisible(point)) continue;
    if (separates(point)) {
      blank = true;
      continue;
    }
    if (blank && !key.empty()) key += ' ';
    blank = false;
    key.append(begin, at);
  }
  return key;
}

std::string visible_spelling(std::string_view name) {
  const std::string text = valid_utf8(name);
  std::string visible;
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at != end) {
    const auto* const begin = at;
    const char32_t point = decode_utf8(at, end);
    if (point != U' ' && (separates(point) || is_invisible(point) || is_mark(point))) {
      std::array<char, 16> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u{%X}", static_cast<unsigned>(point));
      visible += escape.data();
    } else {
      visible.append(begin, at);
    }
  }
  return visible;
}

}  // namespace bert_hpc::tokenize
