#include "lines.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "bert_hpc/core/conll_line.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "json_file.hpp"

namespace bert_hpc::score {
namespace {

constexpr std::int64_t max_bytes = std::int64_t{1} << 32;
constexpr std::string_view blanks = " \t\r\v\f";

void cut_at_blanks(std::string_view content, std::vector<std::string_view>& columns) {
  for (std::size_t at = content.find_first_not_of(blanks); at != content.npos;) {
    const std::size_t stop = std::min(content.find_first_of(blanks, at), content.size());
    columns.push_back(content.substr(at, stop - at));
    at = content.find_first_not_of(blanks, stop);
  }
}

void cut_at(char separator, std::string_view content, std::vector<std::string_view>& columns) {
  for (;;) {
    const std::size_t end = content.find(separator);
    columns.push_back(content.substr(0, end));
    if (end == content.npos) return;
    content.remove_prefix(end + 1);
  }
}

void cut_quoted(std::string_view content, Line& line) {
  for (;;) {
    if (!content.starts_with('"')) {
      const std::size_t end = content.find(',');
      line.columns.push_back(content.substr(0, end));
      if (end == content.npos) return;
      content.remove_prefix(end + 1);
      continue;
    }
    const std::size_t end = content.find('"', 1);
    if (end == content.npos) line.fail("a double quote is not closed on the line; write ids and numbers only.");
    line.columns.push_back(content.substr(1, end - 1));
    content.remove_prefix(end + 1);
    if (content.empty()) return;
    if (content.front() != ',') line.fail("a column in double quotes has more text; write ids and numbers only.");
    content.remove_prefix(1);
  }
}

void cut(std::string_view content, Separator separator, Line& line) {
  line.columns.clear();
  line.content = content;
  if (content.find_first_not_of(blanks) == content.npos) return;
  if (separator == Separator::blanks) return cut_at_blanks(content, line.columns);
  if (separator == Separator::conll) return core::split_conll_line(content, line.columns);
  if (separator == Separator::tab) return cut_at('\t', content, line.columns);
  cut_quoted(content, line);
}

}  // namespace

void Line::fail(const std::string& problem) const {
  fail_data(path, "line " + std::to_string(number) + ": " + problem);
}

void Line::require_columns(std::size_t count, const std::string& form) const {
  if (columns.size() == count) return;
  fail("it has " + core::counted(static_cast<std::int64_t>(columns.size()), "column") + "; write '" + form + "'.");
}

double Line::real(std::size_t column) const {
  double parsed = 0.0;
  const std::string_view text = core::trimmed(columns[column]);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(parsed)) {
    fail(std::string("'") + core::printable(text) + "' in column " + std::to_string(column + 1) +
         " is not a number in its range.");
  }
  return parsed;
}

float Line::single(std::size_t column) const {
  const auto rounded = static_cast<float>(real(column));
  if (!std::isfinite(rounded)) fail("the score is beyond single precision; scale the scores.");
  return rounded;
}

std::int64_t Line::integer(std::size_t column, std::int64_t low, std::int64_t high) const {
  std::int64_t parsed = 0;
  const std::string_view text = core::trimmed(columns[column]);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size() || parsed < low || parsed > high) {
    fail(std::string("'") + core::printable(text) + "' in column " + std::to_string(column + 1) +
         " is not an integer from " + std::to_string(low) + " to " + std::to_string(high) + '.');
  }
  return parsed;
}

std::string read_text(const std::string& path) {
  std::string text = core::read_text_file(path, max_bytes);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

void each_line(const std::string& path, std::string_view text, Separator separator,
               const std::function<void(const Line&)>& take) {
  Line line{path, 0};
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.ends_with('\r')) content.remove_suffix(1);
    ++line.number;
    cut(content, separator, line);
    take(line);
  }
}

void each_row(const std::string& path, Separator separator, const std::function<void(const Line&)>& take) {
  const std::string text = read_text(path);
  each_line(path, text, separator, [&](const Line& line) {
    if (!line.columns.empty()) take(line);
  });
}

}  // namespace bert_hpc::score
