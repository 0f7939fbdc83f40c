// Reads the documentation of all keys, for tests that it is complete and correct: the commented inputs in input/, and
// the tables of input/README.md.
#pragma once

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bert_hpc/config/toml_reader.hpp"
#include "support/tests_directory.hpp"

namespace bert_hpc::test {

/// A line with a key, commented out or not: `text` is "key = value # …".
struct KeyLine {
  std::string table, key, text;
  bool comment;
};

inline std::string example_input(const std::string& program) {
  return tests_directory().string() + "/../input/example_" + program + ".toml";
}

inline std::vector<KeyLine> key_lines(const std::string& path) {
  std::istringstream file(bert_hpc::config::read_input_text(path));
  std::vector<KeyLine> lines;
  std::string line, table;
  while (std::getline(file, line)) {
    if (line.starts_with('[')) table = line.substr(1, line.find(']') - 1);
    const bool comment = line.starts_with("# ");
    const std::string text = comment ? line.substr(2) : line;
    const auto equals = text.find(" = ");
    if (table.empty() || equals == std::string::npos) continue;
    const std::string key = text.substr(0, equals);
    if (key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_12") != std::string::npos) continue;
    lines.push_back({table, key, text, comment});
  }
  return lines;
}

/// The keys of "## `program`" in input/README.md as "table.key": the names in backquotes of the first column under each
/// "### `[table]`".
inline std::set<std::string> manual_keys(const std::string& program) {
  std::istringstream file(bert_hpc::config::read_input_text(tests_directory().string() + "/../input/README.md"));
  std::set<std::string> keys;
  std::string line, table;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line.starts_with("## ")) inside = line == "## " + program;
    if (line.starts_with("#")) table.clear();
    if (line.starts_with("### `[")) table = line.substr(6, line.find(']') - 6);
    if (!inside || table.empty() || !line.starts_with("| `")) continue;
    const std::string cell = line.substr(0, line.find('|', 1));
    for (std::size_t begin = cell.find('`'); begin != std::string::npos;) {
      const std::size_t end = cell.find('`', begin + 1);
      keys.insert(table + '.' + cell.substr(begin + 1, end - begin - 1));
      begin = cell.find('`', end + 1);
    }
  }
  return keys;
}

}  // namespace bert_hpc::test
