// Scans TOML text before toml++ 3.3 parses it, for input that crashes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/config/parse_toml.hpp"

namespace bert_hpc::config {

inline constexpr int max_dots = 16;  // in one dotted key

/// True for the characters of a bare key.
bool is_key_character(char c);

/// Searches for input on which toml++ 3.3 fails, following TOML's strings and comments: dotted keys of any depth
/// (toml++ bounds only the nesting of values), and non-ASCII characters where toml++ tests for white space (its look-up
/// has undefined behavior for some of them): outside strings and comments, where TOML allows none, and after a
/// backslash that ends a line.
class TextScan {
 public:
  explicit TextScan(std::string_view text) : text_(text) {}

  /// Adds the first problem found; true if there is one.
  bool find(std::vector<TomlProblem>& problems);

  /// Position of the first unterminated string, with line 0 if there is none; and its quotes.
  const Location& unclosed() const { return unclosed_; }
  const std::string& unclosed_quotes() const { return unclosed_quotes_; }

 private:
  void check(char c);
  void advance(std::size_t count = 1);
  void skip_string(char quote);

  std::string_view text_;
  std::string problem_, unclosed_quotes_;
  Location unclosed_;
  std::size_t at_ = 0, line_begin_ = 0;
  int line_ = 1, dots_ = 0;
};

}  // namespace bert_hpc::config
