// Strict reading and writing of TOML input files (https://toml.io, version 1.0), for every program here. A program
// visits its keys once, in one function over TomlKeys: TomlReader fills the variables from a file and from --set,
// TomlWriter writes the resolved values so that they read back the same.
//
// Nothing is ignored: keys and tables that were never asked for, wrong types and values out of range are all collected
// with file, line and column and the nearest right name, and thrown together. toml++ stays inside the source file.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::config {

/// Which numbers are allowed. An open end excludes its bound; with a step, only its multiples are.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
  double step = 0;

  bool contains(double value) const;
  std::string text() const;  ///< "at least 1", "a multiple of 0.5 from 0 to below 1"; "" if everything is allowed
};

inline Range any_number() {
  return {};
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

/// Which strings are allowed; anything if there are no names.
struct Choices {
  std::vector<std::string> names;    ///< what this version has
  std::vector<std::string> planned;  ///< documented names that this version refuses, saying so
};

inline Choices any_text() {
  return {};
}
inline Choices one_of(std::vector<std::string> names) {
  return {std::move(names), {}};
}
inline Choices one_of(std::vector<std::string> names, std::vector<std::string> planned) {
  return {std::move(names), std::move(planned)};
}

/// A visit of keys with their types and limits. Table names may be dotted ("model.lora"). A key that is not given
/// leaves its variable as it was, so variables hold their defaults beforehand.
class TomlKeys {
 public:
  virtual ~TomlKeys() = default;

  /// The table that the following keys belong to.
  virtual TomlKeys& table(const std::string& name) = 0;

  virtual TomlKeys& key(const char* name, bool& value) = 0;
  virtual TomlKeys& key(const char* name, std::int64_t& value, const Range& range = {}) = 0;
  virtual TomlKeys& key(const char* name, double& value, const Range& range = {}) = 0;  ///< whole numbers too
  virtual TomlKeys& key(const char* name, std::string& value, const Choices& choices = {}) = 0;
  virtual TomlKeys& key(const char* name, std::vector<std::string>& value) = 0;  ///< one string counts as a list of one
  virtual TomlKeys& key(const char* name, std::vector<double>& value, const Range& each = {}) = 0;
  /// A list of numbers, or instead one of the words: `word` then holds it, else it is left as it was.
  virtual TomlKeys& key(const char* name, std::vector<double>& value, const Range& each, std::string& word,
                        const Choices& words) = 0;
  virtual TomlKeys& key(const char* name, std::optional<bool>& value) = 0;
  virtual TomlKeys& key(const char* name, std::optional<std::int64_t>& value, const Range& range = {}) = 0;
  virtual TomlKeys& key(const char* name, std::optional<double>& value, const Range& range = {}) = 0;
  virtual TomlKeys& key(const char* name, std::optional<std::string>& value, const Choices& choices = {}) = 0;

  /// An int: as std::int64_t, and never beyond what an int holds.
  TomlKeys& key(const char* name, int& value, Range range = {});

  /// The last key must be given.
  virtual TomlKeys& required() = 0;

  /// Documented keys of the current table that this version refuses, saying so.
  virtual TomlKeys& planned(const std::vector<const char*>& names) = 0;
  /// Documented tables that this version refuses.
  virtual TomlKeys& planned_tables(const std::vector<const char*>& names) = 0;
};

/// The text of an input file. Throws Error(input) if it cannot be read or is larger than an input file can be (1 MiB).
std::string read_input_text(const std::string& path);

/// Throws Error(input) with the problems of an input.
void throw_if_any(const core::ProblemList& problems);

class TomlReader : public TomlKeys {
 public:
  /// Reads the file. `overrides` are the "table.key=VALUE" of --set, the last winning over the file and those before.
  TomlReader(const std::string& path, const std::vector<std::string>& overrides);
  /// From text already read; `name` is what messages call it.
  TomlReader(std::string_view text, const std::string& name, const std::vector<std::string>& overrides);
  ~TomlReader() override;
  TomlReader(const TomlReader&) = delete;
  TomlReader& operator=(const TomlReader&) = delete;

  /// Where --set gives `key`, what the file itself says of `others` is forgotten: they exclude each other, and --set
  /// wins. All are "table.key".
  void override_excludes(const std::string& key, const std::vector<std::string>& others);

  using TomlKeys::key;
  TomlKeys& table(const std::string& name) override;
  TomlKeys& key(const char* name, bool& value) override;
  TomlKeys& key(const char* name, std::int64_t& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, double& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, std::string& value, const Choices& choices = {}) override;
  TomlKeys& key(const char* name, std::vector<std::string>& value) override;
  TomlKeys& key(const char* name, std::vector<double>& value, const Range& each = {}) override;
  TomlKeys& key(const char* name, std::vector<double>& value, const Range& each, std::string& word,
                const Choices& words) override;
  TomlKeys& key(const char* name, std::optional<bool>& value) override;
  TomlKeys& key(const char* name, std::optional<std::int64_t>& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, std::optional<double>& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, std::optional<std::string>& value, const Choices& choices = {}) override;
  TomlKeys& required() override;
  TomlKeys& planned(const std::vector<const char*>& names) override;
  TomlKeys& planned_tables(const std::vector<const char*>& names) override;

  /// Is "table.key" given?
  bool given(const std::string& path) const;

  /// Adds a problem of the caller's own ("[batch] micro and micro_tokens are both given: …"), at the place of
  /// "table.key", or of its table or of the whole file where the key is not given. Nothing is added if the key's
  /// value was already reported as wrong, or if the file is not valid TOML (everything would be missing then).
  /// `alternatives`: other keys that would do as well if this one is missing. If one of them is mistyped, only that is
  /// reported.
  void problem(const std::string& path, const std::string& text, std::vector<std::string> alternatives = {});

  bool has_problems() const;

  /// All problems, those of unknown keys and tables too, in the order of the file. Ends the reading.
  core::ProblemList problems();
  /// Throws Error(input) with all of them.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Throws Error(input) where the input `name` is for the other program: it has a table that only that one has, and not
/// the one that this program's inputs have.
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
  TomlKeys& key(const char* name, std::vector<double>& value, const Range& each = {}) override;
  TomlKeys& key(const char* name, std::vector<double>& value, const Range& each, std::string& word,
                const Choices& words) override;
  TomlKeys& key(const char* name, std::optional<bool>& value) override;
  TomlKeys& key(const char* name, std::optional<std::int64_t>& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, std::optional<double>& value, const Range& range = {}) override;
  TomlKeys& key(const char* name, std::optional<std::string>& value, const Choices& choices = {}) override;
  TomlKeys& required() override { return *this; }
  TomlKeys& planned(const std::vector<const char*>&) override { return *this; }
  TomlKeys& planned_tables(const std::vector<const char*>&) override { return *this; }

  /// All that was visited, in that order; tables without keys and values that are not set are left out.
  const std::string& text() const { return text_; }

 private:
  void line(const char* name, const std::string& value);

  std::string text_, table_;
  bool table_written_ = false;
};

}  // namespace bert_hpc::config
