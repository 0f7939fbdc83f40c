#include "toml_scan.hpp"

namespace bert_hpc::config {

namespace {

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

}  // namespace

bool is_key_character(char c) {
  return c == '-' || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool TextScan::find(std::vector<TomlProblem>& problems) {
  if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  while (at_ < text_.size() && problem_.empty()) {
    const char c = text_[at_];
    if (c == '"' || c == '\'') {
      skip_string(c);
    } else if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else {
      check(c);
      if (problem_.empty()) advance();
    }
  }
  if (problem_.empty()) return false;
  problems.push_back({{0, line_, static_cast<int>(at_ - line_begin_) + 1}, problem_});
  return true;
}

/// Checks a character outside strings and comments.
void TextScan::check(char c) {
  if (c == '.') {
    if (++dots_ > max_dots) problem_ = "a dotted key with more than " + std::to_string(max_dots) + " dots";
  } else if (!is_key_character(c) && c != ' ' && c != '\t') {
    dots_ = 0;
  }
  if (!is_ascii(c)) problem_ = "not valid TOML: characters beyond ASCII need quotes, here and in keys";
}

void TextScan::advance(std::size_t count) {
  for (; count > 0; --count) {
    if (text_[at_++] != '\n') continue;
    ++line_;
    line_begin_ = at_;
  }
}

/// Skips a string in any of TOML's four forms; an unterminated one-line string ends with its line.
void TextScan::skip_string(char quote) {
  const std::string triple(3, quote);
  const bool multi_line = text_.substr(at_).starts_with(triple);
  const Location begin{0, line_, static_cast<int>(at_ - line_begin_) + 1};
  advance(multi_line ? 3 : 1);
  while (at_ < text_.size() && problem_.empty()) {
    const char c = text_[at_];
    if (multi_line && text_.substr(at_).starts_with(triple)) {
      advance(3);
      // Up to two more quotes belong to the string.
      for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] == quote; ++i) advance();
      return;
    }
    if (!multi_line && (c == quote || c == '\n')) {
      if (c == '\n') break;
      advance();
      return;
    }
    if (quote == '"' && c == '\\' && at_ + 1 < text_.size() && (multi_line || text_[at_ + 1] != '\n')) {
      const auto next = text_.find_first_not_of(" \t\r\n", at_ + 1);
      if (multi_line && next != std::string_view::npos && !is_ascii(text_[next])) {
        problem_ = "a backslash before a character beyond ASCII: write the string on one line";
        return;
      }
      advance();
    }
    advance();
  }
  if (!problem_.empty() || unclosed_.line > 0) return;
  unclosed_ = begin;
  unclosed_quotes_ = multi_line ? triple : std::string(1, quote);
}

}  // namespace bert_hpc::config
