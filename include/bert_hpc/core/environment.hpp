// Environment variables, as text.
#pragma once

#include <cstdlib>
#include <string>

namespace bert_hpc::core {

/// The value of an environment variable, or "" if it is not set.
inline std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace bert_hpc::core
