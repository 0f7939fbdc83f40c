#include "bert_hpc/core/hash.hpp"

#include <cstdio>

namespace bert_hpc::core {

std::string hash_of_lines(const std::vector<std::string>& lines) {
  std::uint64_t hash = fnv1a_start;
  for (const std::string& line : lines) hash = fnv1a_64("\n", fnv1a_64(line, hash));
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace bert_hpc::core
