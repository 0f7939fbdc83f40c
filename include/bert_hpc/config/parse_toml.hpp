// TOML text to a plain tree in which every value knows its location, and the overrides of --set on top of it. The one
// home of toml++ (its source file); everything else here sees this tree. Text is hostile until parsed: its size,
// nesting and dotted depth are bounded before toml++, whose destructors recurse, sees it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bert_hpc::config {

/// Location of a value: source 0 is the file, n the n-th --set (which has no lines).
struct Location {
  int source = 0;
  int line = 0, column = 0;  ///< from 1; 0: the whole source

  bool operator==(const Location&) const = default;
};

struct TomlValue {
  enum class Kind { boolean, integer, number, text, list, table, other };

  std::string name;  ///< its key; "" for the root and in lists
  Kind kind = Kind::table;
  Location name_location, location;  ///< of the key and of the value
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<TomlValue> children;  ///< of a list or table
  bool asked = false;               ///< for the reader: whether it was visited

  TomlValue* find(std::string_view key);
  std::string description() const;  ///< "the string \"64\"", "the whole number 3", "a list"
};

struct TomlProblem {
  Location location;
  std::string text;
  std::vector<std::string> absent = {};  ///< "table.key" of the keys that are not given and would have answered it
};

/// The root table. After a syntax error the tree is empty and problems has one more entry.
TomlValue parse_toml(std::string_view text, std::vector<TomlProblem>& problems);

/// "table.key" and its value as TOML for every key of a text that this program has written; what cannot be parsed has
/// none.
std::vector<std::pair<std::string, std::string>> flat_keys(std::string_view text);

/// Applies "table.key=VALUE" as source `number` (from 1); adds a problem and changes nothing if it cannot be read.
void apply_override(TomlValue& root, const std::string& text, int number, std::vector<TomlProblem>& problems);

/// A TOML basic string: "…" with everything escaped that needs it.
std::string toml_string(std::string_view text);

/// The shortest TOML float that reads back to the same value: "0.1", "1e-05", "3.0".
std::string toml_number(double value);

/// "toml++ 3.3.0".
std::string toml_library();

}  // namespace bert_hpc::config
