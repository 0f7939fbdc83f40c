// Strict reading and writing of TOML input files (https://toml.io, version 1.0), for all programs here. A program
// visits its keys once, in one function over TomlKeys: TomlReader fills the variables from a file and from --set,
// TomlWriter writes the resolved values so that they read back the same.
//
// Nothing is ignored: the reader collects unknown keys and tables, wrong types and values out of range, each with file,
// line, column and the nearest valid name, and throws them together. Only the source file includes toml++.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/number_setting.hpp"

namespace bert_hpc::config {

/// A range of numbers. An open end excludes its bound; with a step, only its multiples are allowed.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
  double step = 0;
  bool takes_one = false;  ///< of a word or a list of numbers: a number alone is a list of one

  bool contains(double value) const;
  std::string text() const;  ///< "at least 1", "a multiple of 0.5 from 0 to below 1"; "" if everything is allowed
};

inline Range range_of(const core::NumberLimits& limits) {
  return {.low = limits.low, .high = limits.high, .low_open = limits.low_open, .high_open = limits.high_open};
}
inline Range positive() {
  return {.low = 0, .low_open = true};
}
inline Range non_negative() {
  return {.low = 0};
}
inline Range at_least(double low) {
  return {.low = low};
}
inline Range between(double low, double high) {
  return {.low = low, .high = high};
}
inline Range multiples(double step, double low, double high) {
  return {.low = low, .high = high, .step = step};
}
inline Range from_to_below(double low, double high) {
  return {.low = low, .high = high, .high_open = true};
}

/// The allowed strings; any string if there are no names.
struct Choices {
  std::vector<std::string> names;
};

inline Choices one_of(std::vector<std::string> names) {
  return {std::move(names)};
}

/// A visitor of keys with their types and limits. Table names may be dotted ("model.lora"). A key that is not given
/// leaves its variable unchanged, so variables must hold their defaults beforehand.
class TomlKeys {
 public:
  virtual ~TomlKeys() = default;

  /// Selects the table of the following keys.
  virtual TomlKeys& table(const std::string& name) = 0;

  virtual TomlKeys& key(const char* name, bool& value) = 0;
  virtual TomlKeys& key(const char* name, std::int64_t& value, const Range& range = {}) = 0;
  virtual TomlKeys& key(const char* name, double& value, const Range& range = {}) = 0;  ///< accepts whole numbers too
  virtual TomlKeys& key(const char* name, std::string& value, const Choices& choices = {}) = 0;
  virtual TomlKeys& key(const char* name, std::vector<std::string>& value) = 0;  ///< one string counts as a list of one
  /// A string, or a list: one of several strings is stored in `several`, and `value` is then empty.
  virtual TomlKeys& key(const char* name, std::string& value, std::vector<std::string>& several) = 0;
  virtual TomlKeys& key(const char* name, std::vector<double>& value, const Range& each = {}) = 0;
  /// A list of numbers or one of the words: a word is stored in `word`; otherwise `word` is unchanged.
  virtual TomlKeys& key(const char* name, std::vector<double>& value, const Range& each, std::string& word,
                        const Choices& words) = 0;
  virtual TomlKeys& key(const char* name, std::optional<bool>& value) = 0;
  virtual TomlKeys& key(const char* name, std::optional<std::int64_t>& value, const Range& range = {}) = 0;
  virtual TomlKeys& key(const char* name, std::optional<double>& value, const Range& range = {}) = 0;
  virtual TomlKeys& key(const char* name, std::optional<std::string>& value, const Choices& choices = {}) = 0;

  /// An int: like std::int64_t, but limited to the range of int.
  TomlKeys& key(const char* name, int& value, Range range = {});

  /// Marks the last key as mandatory.
  virtual TomlKeys& required() = 0;
};

/// The text of an input file, which messages call `what`. Throws Error(input) if it cannot be read or is larger than
/// the limit of 1 MiB.
std::string read_input_text(const std::string& path, const std::string& what = "the input file");

/// Throws Error(input) with all problems, if there are any.
void throw_if_any(const core::ProblemList& problems);

class TomlReader : public TomlKeys {
 public:
  /// Reads the file. `overrides` are the "table.key=VALUE" of --set; they override the file, and later ones override
  /// earlier ones.
  TomlReader(const std::string& path, const std::vector<std::string>& overrides);
  /// The same for text already in memory; `name` stands for it in messages.
  TomlReader(std::string_view text, const std::string& name, const std::vector<std::string>& overrides);
  ~TomlReader() override;
  TomlReader(const TomlReader&) = delete;
  TomlReader& operator=(const TomlReader&) = delete;

  /// If --set gives `key`, ignores the values of `others`, which are mutually exclusive with it, of the file and of
  /// earlier --set. All are "table.key".
  void override_excludes(const std::string& key, const std::vector<std::string>& others);

  using TomlKeys::key;
  TomlKeys& table(const std::string& name) override;
  TomlKeys& key(const char* name, bool& value) override;
  TomlKeys& key(const char* name, std::int64_t& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, double& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, std::string& value, const Choices& choices = {}) override;
  TomlKeys& key(const char* name, std::vector<std::string>& value) override;
  TomlKeys& key(const char* name, std::string& value, std::vector<std::string>& several) override;
  TomlKeys& key(const char* name, std::vector<double>& value, const Range& each = {}) override;
  TomlKeys& key(const char* name, std::vector<double>& value, const Range& each, std::string& word,
                const Choices& words) override;
  TomlKeys& key(const char* name, std::optional<bool>& value) override;
  TomlKeys& key(const char* name, std::optional<std::int64_t>& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, std::optional<double>& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, std::optional<std::string>& value, const Choices& choices = {}) override;
  TomlKeys& required() override;

  /// True if "table.key" is given.
  bool given(const std::string& path) const;

  /// Adds a problem of the caller's ("[batch] micro and micro_tokens are both given: …"), at the position of
  /// "table.key", or of its table or the whole file if the key is not given. No effect if the key's value is already
  /// reported as wrong, or if the file is not valid TOML (every key would be missing then). `alternatives`: other keys
  /// that would do if this one is missing. If one of them is mistyped, only that is reported.
  void problem(const std::string& path, const std::string& text, std::vector<std::string> alternatives = {});

  /// All problems, including unknown keys and tables, in the order of the file. Ends the reading.
  core::ProblemList problems();
  /// Throws Error(input) with all problems, if there are any.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Throws Error(input) if the input `name` belongs to the other program: it has a table that only the other program's
/// inputs have, and lacks this program's own table.
void refuse_input_of(const std::string& other_program, const std::string& other_table, const std::string& own_table,
                     const TomlReader& reader, const std::string& name);

class TomlWriter : public TomlKeys {
 public:
  using TomlKeys::key;
  TomlKeys& table(const std::string& name) override;
  TomlKeys& key(const char* name, bool& value) override;
  TomlKeys& key(const char* name, std::int64_t& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, double& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, std::string& value, const Choices& choices = {}) override;
  TomlKeys& key(const char* name, std::vector<std::string>& value) override;
  TomlKeys& key(const char* name, std::string& value, std::vector<std::string>& several) override;
  TomlKeys& key(const char* name, std::vector<double>& value, const Range& each = {}) override;
  TomlKeys& key(const char* name, std::vector<double>& value, const Range& each, std::string& word,
                const Choices& words) override;
  TomlKeys& key(const char* name, std::optional<bool>& value) override;
  TomlKeys& key(const char* name, std::optional<std::int64_t>& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, std::optional<double>& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, std::optional<std::string>& value, const Choices& choices = {}) override;
  TomlKeys& required() override { return *this; }

  /// All visited values in order, without empty tables and unset values.
  const std::string& text() const { return text_; }

 private:
  void line(const char* name, const std::string& value);

  std::string text_, table_;
  bool table_written_ = false;
};

}  // namespace bert_hpc::config
