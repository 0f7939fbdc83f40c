#include "json_columns.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "column_words.hpp"
#include "json_scan.hpp"

namespace bert_hpc::prep {
namespace {

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(json_blanks), text.size()));
}

/// Whether the bracket that closes what `text` is in comes next.
bool at_end(std::string_view& text) {
  skip_blanks(text);
  return text.empty() || text.front() == '}' || text.front() == ']';
}

}  // namespace

JsonColumns::JsonColumns(std::string_view object, std::int64_t line, const std::vector<std::string>& names,
                         std::string file)
    : file_(std::move(file)), line_(line), counted_(object.data()) {
  for (const std::string& name : names) columns_.push_back({.name = core::json_text(nlohmann::json(name))});
  find_columns(object, names);
}

bool JsonColumns::next(std::string& object) {
  object.clear();
  object += '{';
  std::size_t cells = 0;
  for (Column& column : columns_) {
    if (!next_cell(column)) continue;
    ++cells;
    object.append(cells > 1 ? "," : "").append(column.name).append(":").append(column.cell);
    const Column& first = columns_.front();
    if (column.has_keys && first.has_keys && column.key != first.key) {
      refuse("row " + core::with_commas(rows_ + 1) + " is " + core::printable(first.key, 60) + " in " + first.name +
             ", and " + core::printable(column.key, 60) + " in " + column.name);
    }
  }
  object += '}';
  if (cells == 0) return false;
  if (cells < columns_.size()) refuse("columns differ in length: not all have a row " + core::with_commas(rows_ + 1));
  ++rows_;
  const char* const cell = columns_.front().cell.data();
  line_ += std::count(counted_, cell, '\n');
  counted_ = cell;
  return true;
}

void JsonColumns::find_columns(std::string_view object, const std::vector<std::string>& names) {
  std::vector<std::string> known, missing;
  std::string_view rest = object;
  take(rest, '{');
  while (!at_end(rest)) {
    const nlohmann::json name = core::parse_json(take_value(rest));
    if (!name.is_string()) refuse("a name cannot be read");
    known.push_back(name);
    take(rest, ':');
    const std::string_view cells = take_value(rest);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (known.back() != names[i]) continue;
      if (!columns_[i].rest.empty()) refuse("has the column " + columns_[i].name + " twice");
      columns_[i].has_keys = cells.front() == '{';
      columns_[i].rest = cells.substr(1);
    }
    if (!at_end(rest)) take(rest, ',');
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (columns_[i].rest.empty()) missing.push_back(names[i]);
  }
  if (missing.empty()) return;
  throw core::Error(core::ExitCode::data, file_ + ": has no " + columns_text(missing, known) + ". Its columns are " +
                                              core::printable(core::listed(known, "and"), 300) + ".");
}

/// Moves to the column's next cell; false after the last.
bool JsonColumns::next_cell(Column& column) {
  if (at_end(column.rest)) return false;
  if (column.has_keys) {
    column.key = take_value(column.rest);
    take(column.rest, ':');
  }
  column.cell = take_value(column.rest);
  if (!at_end(column.rest)) take(column.rest, ',');
  return true;
}

/// The value at the front of `text`, which is removed from it.
std::string_view JsonColumns::take_value(std::string_view& text) const {
  skip_blanks(text);
  ValueEnd end;
  if (!end.find(text) || end.size() == 0) refuse("a value is missing");
  const std::string_view value = text.substr(0, end.size());
  text.remove_prefix(end.size());
  return value;
}

void JsonColumns::take(std::string_view& text, char byte) const {
  skip_blanks(text);
  if (!text.starts_with(byte)) refuse(std::string("is not JSON: ") + byte + " is missing");
  text.remove_prefix(1);
}

void JsonColumns::refuse(const std::string& why) const {
  throw core::Error(core::ExitCode::data, file_ + ": is a table by columns in one JSON object: " + why + ".");
}

}  // namespace bert_hpc::prep
