// Typed values of a config.json.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "strict_json.hpp"

namespace bert_hpc::model {

/// Takes values out of the object: a key that is absent leaves the default, a value of a wrong type is a problem.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& root, core::ProblemList& problems) : root_(root), problems_(problems) {}

  void integer(const char* key, std::int64_t& value) {
    if (const nlohmann::json* found = find(key); found != nullptr && is_integer(key, *found))
      value = found->get<std::int64_t>();
  }
  void integer(const char* key, std::optional<std::int64_t>& value) {
    const nlohmann::json* found = find(key);
    if (found != nullptr && !found->is_null() && is_integer(key, *found)) value = found->get<std::int64_t>();
  }
  void number(const char* key, double& value) {
    if (const nlohmann::json* found = find(key); found != nullptr && is(key, found->is_number(), "a number", *found)) {
      value = found->get<double>();
    }
  }
  void number(const char* key, std::optional<double>& value) {
    const nlohmann::json* found = find(key);
    if (found != nullptr && !found->is_null() && is(key, found->is_number(), "a number or null", *found)) {
      value = found->get<double>();
    }
  }
  void text(const char* key, std::string& value) {
    const nlohmann::json* found = find(key);
    if (found != nullptr && !found->is_null() && is(key, found->is_string(), "a string", *found)) {
      value = found->get<std::string>();
    }
  }
  /// A feature that must be off (or absent) because it is not built in.
  void must_be(const char* key, const nlohmann::json& only, const char* reason) {
    const nlohmann::json* found = find(key);
    if (found == nullptr || found->is_null() || *found == only) return;
    const std::string found_text = found->is_string()
                                       ? found->get<std::string>()
                                       : found->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    problems_.add(std::string(key) + " is " +
                  (found->is_string() ? in_quotes(found_text) : core::printable(found_text)) + ", but only " +
                  only.dump() + " is built in: " + reason);
  }
  const nlohmann::json* find(const char* key) const {
    const auto found = root_.find(key);
    return found == root_.end() ? nullptr : &*found;
  }
  bool is(const char* key, bool holds, const char* wanted, const nlohmann::json& value) {
    if (!holds) problems_.add(std::string(key) + " must be " + wanted + ", but is " + value.type_name() + ".");
    return holds;
  }

 private:
  bool is_integer(const char* key, const nlohmann::json& value) {
    const bool fits = value.is_number_integer() &&
                      !(value.is_number_unsigned() &&
                        value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()});
    return is(key, fits, "a whole number", value);
  }

  const nlohmann::json& root_;
  core::ProblemList& problems_;
};

}  // namespace bert_hpc::model
