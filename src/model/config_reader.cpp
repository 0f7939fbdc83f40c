#include "config_reader.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::model {

using nlohmann::json;

void ConfigReader::integer(const char* key, std::int64_t& value) {
  const json* found = find(key);
  if (found != nullptr && is_integer(key, *found)) value = found->get<std::int64_t>();
}

void ConfigReader::integer(const char* key, std::optional<std::int64_t>& value) {
  const json* found = find(key);
  if (found != nullptr && !found->is_null() && is_integer(key, *found)) value = found->get<std::int64_t>();
}

void ConfigReader::integer(const char* key, const char* other, std::int64_t& value) {
  std::optional<std::int64_t> own, second;
  integer(key, own);
  integer(other, second);
  if (own && second && *own != *second) {
    problems_.add(std::string(key) + " is " + std::to_string(*own) + " and " + other + " is " +
                  std::to_string(*second) + ", but they are two names of one number: remove the wrong one.");
  }
  value = own ? *own : second.value_or(value);
}

void ConfigReader::number(const char* key, double& value) {
  const json* found = find(key);
  if (found != nullptr && is(key, found->is_number(), "a number", *found)) value = found->get<double>();
}

void ConfigReader::number(const char* key, std::optional<double>& value) {
  const json* found = find(key);
  if (found != nullptr && !found->is_null() && is(key, found->is_number(), "a number or null", *found)) {
    value = found->get<double>();
  }
}

void ConfigReader::boolean(const char* key, bool& value) {
  const json* found = find(key);
  if (found != nullptr && !found->is_null() && is(key, found->is_boolean(), "true or false", *found)) {
    value = found->get<bool>();
  }
}

void ConfigReader::text(const char* key, std::string& value) {
  const json* found = find(key);
  if (found != nullptr && !found->is_null() && is(key, found->is_string(), "a string", *found)) {
    value = found->get<std::string>();
  }
}

void ConfigReader::must_equal(const char* key, const json& only, const char* reason, bool may_be_absent) {
  const json* found = find(key);
  const bool absent = found == nullptr || found->is_null();
  if (absent ? may_be_absent : *found == only) return;
  std::string text = "missing";
  if (!absent && found->is_string()) text = core::in_quotes(found->get<std::string>());
  if (!absent && !found->is_string()) text = core::printable(core::json_text(*found, -1, true));
  problems_.add(std::string(key) + " is " + text + ", but only " + core::json_text(only) + " is built in: " + reason);
}

void ConfigReader::must_be(const char* key, bool only, const char* reason) {
  must_equal(key, json(only), reason, true);
}

void ConfigReader::must_be(const char* key, const char* only, const char* reason) {
  must_equal(key, json(only), reason, true);
}

void ConfigReader::must_be(const char* key, std::int64_t only, const char* reason) {
  must_equal(key, json(only), reason, true);
}

void ConfigReader::must_state(const char* key, bool only, const char* reason) {
  must_equal(key, json(only), reason, false);
}

void ConfigReader::must_state(const char* key, const char* only, const char* reason) {
  must_equal(key, json(only), reason, false);
}

const json* ConfigReader::find(const char* key) const {
  const auto found = root_.find(key);
  return found == root_.end() ? nullptr : &*found;
}

bool ConfigReader::is(const char* key, bool holds, const char* wanted, const json& value) {
  if (!holds) problems_.add(std::string(key) + " must be " + wanted + ", but is " + value.type_name() + ".");
  return holds;
}

bool ConfigReader::is_integer(const char* key, const json& value) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() &&
                      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  return is(key, fits, "a whole number", value);
}

}  // namespace bert_hpc::model
