// State of a TomlReader: the parsed tree, the requested keys and the problems; value look-up and suggestions for
// unknown names.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/config/parse_toml.hpp"
#include "bert_hpc/config/toml_reader.hpp"
#include "bert_hpc/core/text.hpp"
#include "synonyms.hpp"
#include "toml_values.hpp"

namespace bert_hpc::config {

inline constexpr std::size_t max_problems = 50;  // shown

struct TomlReader::State {
  std::string file;
  std::vector<std::string> overrides;
  TomlValue root;
  std::vector<TomlProblem> problems;
  std::map<std::string, std::vector<std::string>> known;  // requested keys, by table
  bool readable = false;                                  // false after a syntax error; missing keys are then not
                                                          // reported

  std::string table;                 // path of the current table
  TomlValue* table_value = nullptr;  // null: not given
  std::string last_key, last_kind;
  bool last_given = false;
  std::set<std::string> failed;  // "table.key" of values that could not be read or are reported as missing
  std::set<std::string> meant;   // "table.key" and tables that unknown names probably stand for

  void add(const Location& location, const std::string& text, std::vector<std::string> absent = {}) {
    problems.push_back({location, text, std::move(absent)});
  }

  /// The current table's value under this key, null if not given; records the key as known.
  TomlValue* ask(const char* name, const std::string& kind) {
    known[table].emplace_back(name);
    last_key = name;
    last_kind = kind;
    TomlValue* value = table_value == nullptr ? nullptr : table_value->find(name);
    last_given = value != nullptr;
    if (value != nullptr) value->asked = true;
    return value;
  }

  /// The value at a dotted path, null if there is none.
  TomlValue* at(const std::string& path) {
    TomlValue* value = &root;
    for (std::size_t begin = 0; value != nullptr && begin <= path.size();) {
      const auto dot = std::min(path.find('.', begin), path.size());
      value = value->find(std::string_view(path).substr(begin, dot - begin));
      begin = dot + 1;
    }
    return value;
  }

  template <class T, class... Limits>
  bool read(const char* name, const std::string& kind, T& value, const Limits&... limits) {
    const TomlValue* given = ask(name, kind);
    if (given == nullptr) return false;
    const ValueProblem problem = read_value(*given, value, limits...);
    if (problem.text.empty()) return true;
    add(problem.location, '[' + table + "] " + problem.text);
    failed.insert(table + '.' + name);
    return false;
  }

  template <class T, class... Limits>
  void read_optional(const char* name, const std::string& kind, std::optional<T>& value, const Limits&... limits) {
    T result{};
    if (read(name, kind, result, limits...)) value = std::move(result);
  }

  bool has_key(const std::string& in_table, const std::string& name) const {
    const auto keys = known.find(in_table);
    return keys != known.end() && std::find(keys->second.begin(), keys->second.end(), name) != keys->second.end();
  }

  /// True if this "table.key" or table is known.
  bool has_path(const std::string& path) const {
    const auto dot = path.rfind('.');
    return known.contains(path) || (dot != std::string::npos && has_key(path.substr(0, dot), path.substr(dot + 1)));
  }

  /// A hint for an unknown key: the table that has it, or its equivalent here if another trainer uses it (see
  /// synonyms.hpp); "" if neither applies.
  std::string table_hint(const std::string& in_table, const std::string& name) {
    std::vector<std::string> tables;
    for (const auto& [other, keys] : known) {
      if (!has_key(other, name)) continue;
      meant.insert(other + '.' + name);
      tables.push_back('[' + other + ']');
    }
    if (!tables.empty()) return "; it belongs to " + core::listed(tables, "or", false);
    const KeySuggestion synonym = suggested_key(name, [this](const std::string& path) { return has_path(path); });
    if (!synonym.key.empty()) meant.insert(synonym.key);
    const auto dot = synonym.key.rfind('.');
    const bool here = dot != std::string::npos && synonym.key.substr(0, dot) == in_table && synonym.plain;
    if (here) return "; did you mean \"" + synonym.key.substr(dot + 1) + "\"?";
    return synonym.text.empty() ? std::string{} : "; " + synonym.text;
  }

  /// A hint what an unknown key probably stands for; all keys of its table if no name is near.
  std::string key_hint(const std::string& in_table, const std::string& name) {
    if (std::string hint = table_hint(in_table, name); !hint.empty()) return hint;
    const auto here = known.find(in_table);
    if (here == known.end() || here->second.empty()) return {};
    const std::string nearest = core::nearest_name(name, here->second);
    if (!nearest.empty()) meant.insert(in_table + '.' + nearest);
    return nearest.empty() ? ", which has " + core::listed(here->second, "and", false)
                           : "; did you mean \"" + nearest + "\"?";
  }

  /// "" if no table name is near.
  std::string nearest_table(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& entry : known) names.push_back(entry.first);
    return core::nearest_name(name, names);
  }

  /// Reports an unknown table. If no table name is near, its keys may belong to other tables.
  void report_unknown_table(const TomlValue& table_node) {
    const std::string title = "unknown table [" + core::printable(table_node.name, 60) + ']';
    if (const std::string nearest = nearest_table(table_node.name); !nearest.empty()) {
      meant.insert(nearest);
      return add(table_node.name_location, title + "; did you mean [" + nearest + "]?");
    }
    std::vector<std::string> names;
    for (const auto& entry : known) names.push_back(entry.first);
    add(table_node.name_location, title + "; the tables are " + core::listed(names, "and", false));
    for (const TomlValue& child : table_node.children) {
      if (const std::string hint = table_hint(table_node.name, child.name); !hint.empty()) {
        add(child.name_location, "unknown key \"" + core::printable(child.name, 60) + "\" in [" +
                                     core::printable(table_node.name, 60) + ']' + hint);
      }
    }
  }

  bool is_known_table(const std::string& path) const {
    const auto next = known.lower_bound(path);
    return next != known.end() && (next->first == path || next->first.starts_with(path + '.'));
  }

  /// Adds a problem for everything under `node` that was never requested.
  void report_unknown(const TomlValue& node, const std::string& path) {
    for (const TomlValue& child : node.children) {
      if (problems.size() > max_problems + 1) return;
      if (child.asked) continue;
      const std::string child_path = path.empty() ? child.name : path + '.' + child.name;
      const std::string shown = core::printable(child.name, 60);
      if (is_known_table(child_path)) {
        if (child.kind == TomlValue::Kind::table) report_unknown(child, child_path);
      } else if (path.empty() && child.kind == TomlValue::Kind::table) {
        report_unknown_table(child);
      } else if (path.empty()) {
        add(child.name_location, "the key \"" + shown + "\" stands outside any table" + key_hint("", child.name));
      } else {
        add(child.name_location, "unknown key \"" + shown + "\" in [" + path + ']' + key_hint(path, child.name));
      }
    }
  }

  std::string text_of(const TomlProblem& problem) const {
    const Location& location = problem.location;
    std::string where = file;
    if (location.source > 0) {
      const std::string& text = overrides[static_cast<std::size_t>(location.source - 1)];
      where = "--set " + core::printable(text, 80);
    } else if (location.line > 0) {
      where += ':' + std::to_string(location.line) + ':' + std::to_string(location.column);
    }
    return where + ": " + problem.text;
  }
};

}  // namespace bert_hpc::config
