#include <cmath>

#include "bert_hpc/config/parse_toml.hpp"
#include "bert_hpc/config/toml_reader.hpp"

namespace bert_hpc::config {

namespace {

std::string written(bool value) {
  return value ? "true" : "false";
}
std::string written(std::int64_t value) {
  return std::to_string(value);
}
std::string written(double value) {
  return toml_number(value);
}
std::string written(const std::string& value) {
  return toml_string(value);
}

/// An entry of a list; whole numbers without a decimal point.
std::string entry(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? std::to_string(static_cast<std::int64_t>(value)) : written(value);
}
std::string entry(const std::string& value) {
  return written(value);
}

template <class T>
std::string written(const std::vector<T>& values) {
  std::string list = "[";
  for (const T& value : values) list += (list.size() > 1 ? ", " : "") + entry(value);
  return list + ']';
}

}  // namespace

void TomlWriter::line(const char* name, const std::string& value) {
  if (!table_written_) {
    if (!text_.empty()) text_ += '\n';
    text_ += '[' + table_ + "]\n";
    table_written_ = true;
  }
  text_ += std::string(name) + " = " + value + '\n';
}

TomlKeys& TomlWriter::table(const std::string& name) {
  if (name != table_) table_written_ = false;
  table_ = name;
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, bool& value) {
  line(name, written(value));
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, std::int64_t& value, const Range&) {
  line(name, written(value));
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, double& value, const Range&) {
  line(name, written(value));
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, std::string& value, const Choices& choices) {
  const bool is_given = !value.empty() || choices.names.empty();  // "" is none of the words
  if (is_given) line(name, written(value));
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, std::vector<std::string>& value) {
  line(name, written(value));
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, std::string& value, std::vector<std::string>& several) {
  several.empty() ? line(name, written(value)) : line(name, written(several));
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, std::vector<double>& value, const Range&) {
  line(name, written(value));
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, std::vector<double>& value, const Range&, std::string& word,
                          const Choices&) {
  if (value.size() == 1) {
    line(name, written(value.front()));
  } else if (!value.empty() || !word.empty()) {
    line(name, value.empty() ? written(word) : written(value));
  }
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, std::optional<bool>& value) {
  if (value) line(name, written(*value));
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, std::optional<std::int64_t>& value, const Range&) {
  if (value) line(name, written(*value));
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, std::optional<double>& value, const Range&) {
  if (value) line(name, written(*value));
  return *this;
}

TomlKeys& TomlWriter::key(const char* name, std::optional<std::string>& value, const Choices&) {
  if (value) line(name, written(*value));
  return *this;
}

}  // namespace bert_hpc::config
