// Typed values of a config.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::model {

/// Takes values out of the object: a key that is absent leaves the default, a value of a wrong type is a problem.
class ConfigReader {
 public:
  /// Both must outlive it.
  ConfigReader(const nlohmann::json& root, core::ProblemList& problems) : root_(root), problems_(problems) {}

  void integer(const char* key, std::int64_t& value);
  void integer(const char* key, std::optional<std::int64_t>& value);
  /// A number that has two names: a file has it under either, or under both with one value.
  void integer(const char* key, const char* other, std::int64_t& value);
  void number(const char* key, double& value);
  void number(const char* key, std::optional<double>& value);
  void boolean(const char* key, bool& value);
  void text(const char* key, std::string& value);

  /// A feature that must be off (or absent) because it is not built in.
  void must_be(const char* key, bool only, const char* reason);
  void must_be(const char* key, const char* only, const char* reason);
  void must_be(const char* key, std::int64_t only, const char* reason);
  /// A feature that must be on, and is off if the key is absent.
  void must_state(const char* key, bool only, const char* reason);
  void must_state(const char* key, const char* only, const char* reason);

  const nlohmann::json* find(const char* key) const;
  core::ProblemList& problems() { return problems_; }
  /// `holds`; a problem where it does not.
  bool is(const char* key, bool holds, const char* wanted, const nlohmann::json& value);

 private:
  bool is_integer(const char* key, const nlohmann::json& value);
  void must_equal(const char* key, const nlohmann::json& only, const char* reason, bool may_be_absent);

  const nlohmann::json& root_;
  core::ProblemList& problems_;
};

}  // namespace bert_hpc::model
