#include "bert_hpc/config/parse_toml.hpp"

// toml++ is compiled in here, whatever the installed package prefers, so that these choices hold: deep nesting is
// refused early (toml++ and the tree below recurse once per level), and the parser's assertions, one of which a lone
// '[' at the end of a line breaks in 3.3, neither stop the program nor become assumptions; its own error branches
// follow them.
#undef NDEBUG
#undef TOML_HEADER_ONLY
#undef TOML_SHARED_LIB
#define TOML_HEADER_ONLY 1
#define TOML_SHARED_LIB 0
#define TOML_MAX_NESTED_VALUES 32
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <tuple>

#include "bert_hpc/core/text.hpp"
#include "toml_scan.hpp"

namespace bert_hpc::config {

namespace {

Location location_of(const toml::source_region& region, int source) {
  return {source, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

TomlValue converted(const toml::node& node, int source) {
  using Kind = TomlValue::Kind;
  TomlValue value;
  value.location = location_of(node.source(), source);
  if (const auto* table = node.as_table()) {
    for (const auto& [key, child] : *table) {
      TomlValue entry = converted(child, source);
      entry.name = std::string(key.str());
      entry.name_location = location_of(key.source(), source);
      value.children.push_back(std::move(entry));
    }
  } else if (const auto* array = node.as_array()) {
    value.kind = Kind::list;
    for (const auto& child : *array) value.children.push_back(converted(child, source));
  } else if (const auto* text = node.as_string()) {
    value.kind = Kind::text;
    value.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = Kind::integer;
    value.integer = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    value.kind = Kind::number;
    value.number = number->get();
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = Kind::boolean;
    value.boolean = boolean->get();
  } else {
    value.kind = Kind::other;
  }
  return value;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

/// Whether it looks like a string whose quotes were forgotten.
bool is_bare_text(std::string_view value) {
  if (value.empty() || value.find_first_of("\"'[]{}\n") != std::string_view::npos) return false;
  if (value == "true" || value == "false") return false;
  const char c = value[0];
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/' || c == '.' || c == '~' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string line_of(std::string_view text, int line) {
  std::size_t begin = 0;
  for (int i = 1; i < line; ++i) {
    begin = text.find('\n', begin);
    if (begin == std::string_view::npos) return {};
    ++begin;
  }
  return std::string(trimmed(text.substr(begin, text.find('\n', begin) - begin)));
}

/// toml++'s message with the line it is about and, where a string lacks its quotes, the line as it should be.
std::string syntax_problem(std::string_view text, const toml::parse_error& error) {
  const std::string line = line_of(text, static_cast<int>(error.source().begin.line));
  std::string result = "not valid TOML: " + core::printable(error.description(), 400);
  if (line.empty()) return result;
  result += "\n     " + core::printable(line, 120);
  const auto equals = line.find('=');
  if (equals == std::string::npos || line[0] == '#') return result;
  std::string_view value = trimmed(std::string_view(line).substr(equals + 1));
  value = trimmed(value.substr(0, value.find('#')));
  if (!is_bare_text(value)) return result;
  const auto name = trimmed(std::string_view(line).substr(0, equals));
  return result + "\n     Strings need quotes: " + core::printable(name) + " = " + toml_string(core::printable(value));
}

/// Instead of toml++'s message, which is about the line feed that the string then holds.
std::string unclosed_problem(std::string_view text, const Location& location, const std::string& quotes) {
  const std::string where = quotes.size() == 1 ? "the end of the line" : "the end of the file";
  return "not valid TOML: the string that begins here is not closed: there is no second " + quotes + " before " +
         where + "\n     " + core::printable(line_of(text, location.line), 120);
}

std::string quoting_hint(std::string_view text) {
  return "; a string needs quotes that the shell does not remove: '" + toml_string(core::printable(text, 100)) + "'";
}

/// The one value of "v = TEXT", or a problem's text.
TomlValue override_value(std::string_view text, int number, std::string& problem) {
  const std::string line = "v = " + std::string(text);
  if (std::vector<TomlProblem> found; TextScan(line).find(found)) {
    problem = core::printable(text, 100) + " is not a TOML value";
    if (is_bare_text(text)) problem += quoting_hint(text);
    return {};
  }
  try {
    const toml::table table = toml::parse(line);
    const toml::node* node = table.get("v");
    if (table.size() == 1 && node != nullptr) return converted(*node, number);
    problem = "has more than one value";
  } catch (const toml::parse_error&) {
    if (text.empty()) {
      problem = "has no value after =";
      return {};
    }
    const std::string shown = core::printable(text, 100);
    problem = shown + " is not a TOML value";
    if (is_bare_text(text))
      problem += "; a string needs quotes that the shell does not remove: '" + toml_string(shown) + "'";
  } catch (const std::exception& error) {
    problem = core::printable(error.what());
  }
  return {};
}

/// The parts of "a.b.c"; empty if one of them is not a bare key.
std::vector<std::string> key_path(std::string_view text) {
  std::vector<std::string> path;
  while (true) {
    const auto dot = text.find('.');
    const std::string_view part = trimmed(text.substr(0, dot));
    if (part.empty() || !std::all_of(part.begin(), part.end(), is_key_character)) return {};
    path.emplace_back(part);
    if (dot == std::string_view::npos) return path;
    text.remove_prefix(dot + 1);
  }
}

std::string value_text(const TomlValue& value) {
  using Kind = TomlValue::Kind;
  if (value.kind == Kind::boolean) return value.boolean ? "true" : "false";
  if (value.kind == Kind::integer) return std::to_string(value.integer);
  if (value.kind == Kind::number) return toml_number(value.number);
  if (value.kind == Kind::text) return toml_string(value.text);
  std::string list;
  for (const TomlValue& child : value.children) list += (list.empty() ? "" : ", ") + value_text(child);
  return '[' + list + ']';
}

void add_flat_keys(const TomlValue& table, const std::string& prefix,
                   std::vector<std::pair<std::string, std::string>>& keys) {
  for (const TomlValue& child : table.children) {
    const std::string name = prefix + child.name;
    if (child.kind == TomlValue::Kind::table) {
      add_flat_keys(child, name + '.', keys);
    } else {
      keys.emplace_back(name, value_text(child));
    }
  }
}

}  // namespace

TomlValue* TomlValue::find(std::string_view key) {
  if (kind != Kind::table) return nullptr;
  const auto has_name = [key](const TomlValue& child) { return child.name == key; };
  const auto found = std::find_if(children.begin(), children.end(), has_name);
  return found == children.end() ? nullptr : &*found;
}

std::string TomlValue::description() const {
  switch (kind) {
    case Kind::boolean:
      return boolean ? "true" : "false";
    case Kind::integer:
      return "the whole number " + std::to_string(integer);
    case Kind::number:
      return "the number " + toml_number(number);
    case Kind::text:
      return "the string \"" + core::printable(text, 80) + '"';
    case Kind::list:
      return "a list";
    case Kind::table:
      return "a table";
    case Kind::other:
      break;
  }
  return "a date or time";
}

TomlValue parse_toml(std::string_view text, std::vector<TomlProblem>& problems) {
  TextScan scan(text);
  if (scan.find(problems)) return {};
  try {
    return converted(toml::parse(text), 0);
  } catch (const toml::parse_error& error) {
    const Location location = location_of(error.source(), 0), open = scan.unclosed();
    if (open.line > 0 && std::tie(open.line, open.column) <= std::tie(location.line, location.column)) {
      problems.push_back({open, unclosed_problem(text, open, scan.unclosed_quotes())});
    } else {
      problems.push_back({location, syntax_problem(text, error)});
    }
  } catch (const std::exception& error) {
    problems.push_back({{}, "not valid TOML: " + core::printable(error.what())});
  }
  return {};
}

std::vector<std::pair<std::string, std::string>> flat_keys(std::string_view text) {
  std::vector<TomlProblem> problems;
  std::vector<std::pair<std::string, std::string>> keys;
  add_flat_keys(parse_toml(text, problems), "", keys);
  return keys;
}

void apply_override(TomlValue& root, const std::string& text, int number, std::vector<TomlProblem>& problems) {
  const Location location{number, 0, 0};
  const auto fail = [&](const std::string& what) { problems.push_back({location, what}); };
  const auto equals = text.find('=');
  const std::vector<std::string> path =
      equals == std::string::npos ? std::vector<std::string>{} : key_path(std::string_view(text).substr(0, equals));
  if (path.size() < 2 || path.size() > max_dots) {
    return fail("must be a table, a key and a value, table.key=VALUE, as in --set batch.global=64");
  }
  std::string problem;
  TomlValue value = override_value(trimmed(std::string_view(text).substr(equals + 1)), number, problem);
  if (!problem.empty()) return fail(problem);

  TomlValue* table = &root;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    if (table->find(path[i]) == nullptr) {
      TomlValue fresh;
      fresh.name = path[i];
      fresh.name_location = fresh.location = location;
      table->children.push_back(std::move(fresh));
    }
    table = table->find(path[i]);
    if (table->kind != TomlValue::Kind::table) return fail(path[i] + " is " + table->description() + ", not a table");
  }
  value.name = path.back();
  value.name_location = value.location = location;
  if (TomlValue* old = table->find(path.back())) {
    *old = std::move(value);
  } else {
    table->children.push_back(std::move(value));
  }
}

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (result += '\\') += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04X", static_cast<unsigned>(byte));
      result += escape;
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string toml_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  std::string result(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

std::string toml_library() {
  return "toml++ " + std::to_string(TOML_LIB_MAJOR) + '.' + std::to_string(TOML_LIB_MINOR) + '.' +
         std::to_string(TOML_LIB_PATCH);
}

}  // namespace bert_hpc::config
