// JSON out of files that may be hostile: no longer and no deeper than any of these is, as the parser takes many times
// the bytes of what it reads. For sources: public headers do without the JSON library, which not every module has.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_depth.hpp"

namespace bert_hpc::core {

inline constexpr std::int64_t longest_json = std::int64_t{4} << 20;  // bytes; names of many labels

/// Discarded where it is too long, too deep or no JSON.
inline nlohmann::json parse_bounded_json(const std::string& text) {
  constexpr int deepest = 16;
  if (static_cast<std::int64_t>(text.size()) > longest_json || nests_too_deep(text, deepest)) {
    return nlohmann::json::value_t::discarded;
  }
  return parse_json(text);
}

}  // namespace bert_hpc::core
