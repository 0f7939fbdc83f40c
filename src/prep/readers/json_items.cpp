#include "json_items.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"

namespace bert_hpc::prep {
namespace {

using core::Error;
using core::ExitCode;
using nlohmann::json;
using Kind = FirstMembers::Kind;

constexpr char no_byte = '\0';
constexpr std::size_t first_look = std::size_t{1} << 16;

std::int64_t count_lines(std::string_view text) {
  return std::count(text.begin(), text.end(), '\n');
}

bool is_one_of(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whether the object is a table by columns: those that it has are objects with a name for each row, or lists, one of
/// which is not the list of a single row.
bool is_table(const FirstMembers& found, const JsonItems::Members& members) {
  std::size_t objects = 0, lists = 0, columns = 0;
  bool has_rows = false;
  for (std::size_t i = 0; i < found.kinds.size(); ++i) {
    if (!is_one_of(members.names, found.names[i])) continue;
    const bool is_nested = found.kinds[i] == Kind::lists;
    ++columns;
    objects += found.kinds[i] == Kind::object;
    lists += is_nested || found.kinds[i] == Kind::list;
    has_rows = has_rows || is_nested || !is_one_of(members.lists, found.names[i]);
  }
  return columns > 0 && (objects == columns || (lists == columns && has_rows));
}

/// Whether the values are the members of the object, as all seem to be objects and the first has a name of them.
bool holds_rows(const FirstMembers& found, const JsonItems::Members& members) {
  const auto is_member = [&members](const std::string& name) { return is_one_of(members.names, name); };
  return std::any_of(found.inner.begin(), found.inner.end(), is_member) &&
         std::all_of(found.kinds.begin(), found.kinds.end(), [](Kind kind) { return kind == Kind::object; });
}

}  // namespace

JsonItems::JsonItems(const std::string& file, const std::string& encoding, const Members& members, const char* item)
    : source_(file, encoding), item_(item), holder_(find_holder(members)) {
  if (holder_ == Holder::columns) begin_columns(members.names);
  if (holder_ == Holder::list || holder_ == Holder::document || holder_ == Holder::members) {
    next_byte();
    source_.consume(1, 0);
  }
  if (holder_ == Holder::document && !find_data(true)) {
    throw Error(ExitCode::data, file + ": has no list in \"data\".");
  }
}

JsonItems::Holder JsonItems::find_holder(const Members& members) {
  for (std::size_t wanted = first_look;; wanted = std::min(8 * wanted, longest_record)) {
    const std::string_view text = source_.peek(wanted);
    const std::size_t begin = std::min(text.find_first_not_of(json_blanks), text.size());
    if (begin < text.size() && text[begin] == '[') return Holder::list;
    if (begin == text.size() || text[begin] != '{') return Holder::lines;
    const std::string_view object = text.substr(begin);
    const FirstMembers found = first_members(object);
    const bool is_item = std::any_of(found.names.begin(), found.names.end(),
                                     [&](const std::string& name) { return is_one_of(members.names, name); });
    if (found.has_list && !is_item) return Holder::document;
    if (holds_rows(found, members) && !is_item) return Holder::members;
    const bool is_whole_file = text.size() < wanted || wanted == longest_record;
    if (found.is_cut && !is_whole_file) continue;
    if (found.is_cut && wanted == longest_record && is_table(found, members)) {
      throw Error(ExitCode::data, file() +
                                      ": is a table by columns in one JSON object of more than 64 MiB; write it "
                                      "with a row a line: with pandas to_json(orient=\"records\", lines=True).");
    }
    if (!found.is_object) return members.names.empty() ? Holder::document : Holder::lines;
    ValueEnd end;
    const bool ends = end.find(object);
    if (ends && is_table(found, members) &&
        object.find_first_not_of(json_blanks, end.size()) == std::string_view::npos) {
      if (!is_whole_file) continue;
      return Holder::columns;
    }
    return ends && count_lines(object.substr(0, end.size())) > 0 ? Holder::objects : Holder::lines;
  }
}

/// Reads the object that is the whole file.
void JsonItems::begin_columns(const std::vector<std::string>& names) {
  next_byte();
  const std::int64_t line = source_.line();
  object_ = value("the table");
  end_file('}');
  table_.emplace(object_, line, names, file());
}

bool JsonItems::next(std::string_view& text) {
  if (at_end_) return false;
  switch (holder_) {
    case Holder::lines:
      return next_line(text);
    case Holder::objects:
      return next_object(text);
    case Holder::columns:
      return next_row(text);
    default:
      return next_element(text);
  }
}

bool JsonItems::next_line(std::string_view& text) {
  if (!source_.next_filled_line(text, line_)) return false;
  ++number_;
  return true;
}

bool JsonItems::next_object(std::string_view& text) {
  if (next_byte() == no_byte && source_.peek(1).empty()) {
    at_end_ = true;
    return false;
  }
  begin_item();
  text = value(item_ + ' ' + std::to_string(number_));
  if (text.empty()) refuse("a bracket has no partner");
  return true;
}

bool JsonItems::next_row(std::string_view& text) {
  if (!table_->next(row_)) {
    at_end_ = true;
    return false;
  }
  ++number_;
  line_ = table_->line();
  text = row_;
  return true;
}

bool JsonItems::next_element(std::string_view& text) {
  const char bracket = holder_ == Holder::members ? '}' : ']';
  if (next_byte() == bracket) {
    source_.consume(1, 0);
    at_end_ = true;
    if (holder_ != Holder::document) {
      end_file(bracket);
    } else if (find_data(false)) {
      throw Error(ExitCode::data, file() + ": has \"data\" twice.");
    }
    return false;
  }
  const std::string otherwise = std::string("a comma or ") + bracket + " is missing after ";
  if (number_ > 0) take(',', (otherwise + item_ + ' ' + std::to_string(number_)).c_str());
  next_byte();
  if (holder_ == Holder::members) {
    value("a name");
    take(':', "a colon is missing after a name");
    next_byte();
  }
  begin_item();
  text = value(item_ + ' ' + std::to_string(number_));
  return true;
}

void JsonItems::begin_item() {
  ++number_;
  line_ = source_.line();
  offset_ = source_.offset();
}

/// Nothing but blanks may follow the bracket that closes everything.
void JsonItems::end_file(char bracket) {
  if (next_byte() == no_byte && source_.peek(1).empty()) return;
  refuse(std::string("something follows after its last ") + bracket);
}

/// Members of the outermost object, up to the list in "data"; false if the object and the file end before.
bool JsonItems::find_data(bool first) {
  for (;; first = false) {
    if (next_byte() == '}') {
      source_.consume(1, 0);
      end_file('}');
      return false;
    }
    if (!first) take(',', "a comma or } is missing after a member");
    if (next_byte() != '"') refuse("a name in quotes is missing");
    const std::int64_t line = source_.line(), offset = source_.offset();
    const json name = core::parse_json(value("a name"));
    if (!name.is_string()) refuse_json(file(), line, offset, "a name cannot be read");
    take(':', "a colon is missing after a name");
    if (name == "data" && next_byte() == '[') {
      source_.consume(1, 0);
      return true;
    }
    name == "columns" ? read_columns() : skip_value();
  }
}

/// The names in the list at the front; none if it is something else.
void JsonItems::read_columns() {
  next_byte();
  const json names = core::parse_json(value("a value"));
  if (!names.is_array()) return;
  for (const json& name : names) columns_.push_back(name.is_string() ? name.get<std::string>() : core::json_text(name));
}

/// The next byte that is not blank, which stays at the front; no_byte at the end of the file.
char JsonItems::next_byte() {
  for (;;) {
    const std::string_view text = source_.peek(1);
    const std::size_t end = std::min(text.find_first_not_of(json_blanks), text.size());
    source_.consume(end, count_lines(text.substr(0, end)));
    if (text.empty() || end < text.size()) return text.empty() ? no_byte : text[end];
  }
}

void JsonItems::take(char byte, const char* otherwise) {
  if (next_byte() != byte) refuse(otherwise);
  source_.consume(1, 0);
}

/// Skips a value that no column is made of; it must be JSON nevertheless.
void JsonItems::skip_value() {
  next_byte();
  const std::int64_t line = source_.line(), offset = source_.offset();
  const std::string_view text = value("a value");
  // The parser would skip a byte order mark, and take a zero for the end.
  const bool odd = text.starts_with('\xEF') || text.find('\0') != std::string_view::npos;
  if (odd || !json::accept(text)) refuse_json(file(), line, offset, "a value cannot be read");
}

/// The bytes of the value at the front, which are consumed. They last until the next call of anything here.
std::string_view JsonItems::value(const std::string& name) {
  const auto at = [this] {
    return file() + ": line " + std::to_string(source_.line()) + ", byte " + std::to_string(source_.offset() + 1) +
           ": ";
  };
  ValueEnd end;
  std::string_view text = source_.peek(1);
  while (!end.find(text)) {
    const std::size_t known = text.size();
    if (known >= longest_record) {
      throw Error(ExitCode::data,
                  at() + name + " is longer than 64 MiB; is a bracket or quote never closed? Otherwise split it.");
    }
    text = source_.peek(known + 1);
    if (text.size() > known) continue;
    if (holder_ == Holder::objects) {  // nothing follows that an end could be missed in
      source_.consume(text.size(), count_lines(text));
      return text;
    }
    throw Error(ExitCode::data, at() + "the file ends within " + name + '.');
  }
  text = text.substr(0, end.size());
  source_.consume(text.size(), count_lines(text));
  return text;
}

void JsonItems::refuse(const std::string& why) const {
  refuse_json(file(), source_.line(), source_.offset(), why);
}

}  // namespace bert_hpc::prep
