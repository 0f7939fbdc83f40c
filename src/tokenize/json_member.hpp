// Internal to the module.
#pragma once

#include <nlohmann/json.hpp>

namespace bert_hpc::tokenize {

/// The member `key` of an object; null if there is none, or `value` is no object.
inline const nlohmann::json& member(const nlohmann::json& value, const char* key) {
  static const nlohmann::json absent;
  if (!value.is_object()) return absent;
  const auto found = value.find(key);
  return found == value.end() ? absent : *found;
}

}  // namespace bert_hpc::tokenize
