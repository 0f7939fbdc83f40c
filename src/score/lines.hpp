// Text tables of unknown origin: lines cut into columns, and errors that name file and line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::score {

/// A line and its columns, of which a blank line has none. The views are into the text of the file.
struct Line {
  const std::string& path;
  std::size_t number;  ///< from 1
  std::vector<std::string_view> columns{};
  std::string_view content{};  ///< of the whole line

  /// Throws Error(data): "PATH: line NUMBER: problem".
  [[noreturn]] void fail(const std::string& problem) const;
  /// Fails unless there are so many columns. form: how to write the line.
  void require_columns(std::size_t count, const std::string& form) const;
  /// A finite number; blanks around it do not count. Columns are counted from 0 here, and from 1 in messages.
  double real(std::size_t column) const;
  /// A number rounded to single precision; tiny numbers become 0.
  float single(std::size_t column) const;
  std::int64_t integer(std::size_t column, std::int64_t low, std::int64_t high) const;
};

/// Separators of columns: runs of blanks; as core::split_conll_line(); each tab; each comma, where a column may stand
/// in double quotes, without a double quote or a line end in it.
enum class Separator { blanks, conll, tab, comma };

/// The text of a file, without a UTF-8 byte order mark. Throws Error(files).
std::string read_text(const std::string& path);

/// Calls take(line) for each line of the text, blank ones too. LF or CRLF ends a line.
void each_line(const std::string& path, std::string_view text, Separator separator,
               const std::function<void(const Line&)>& take);

/// Calls take(line) for each line of a file that is not blank; the views last as long as the call.
void each_row(const std::string& path, Separator separator, const std::function<void(const Line&)>& take);

}  // namespace bert_hpc::score
