// Environment variables, as text.
#pragma once

#include <cstdlib>
#include <string>

namespace bert_hpc::core {

/// "" where there is none.
inline std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace bert_hpc::core
