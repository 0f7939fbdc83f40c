// Reads the inputs in input/ that explain every key, for tests that keep them complete and right.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "bert_hpc/config/toml_reader.hpp"

namespace test {

/// A line that gives a key, commented out or not: `text` is "key = value # …".
struct KeyLine {
  std::string table, key, text;
  bool comment;
};

inline std::string example_input(const std::string& program) {
  return std::string(BERT_HPC_TESTS_DIRECTORY) + "/../input/example_" + program + ".toml";
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

}  // namespace test
