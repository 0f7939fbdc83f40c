// Limits of the parts of a batch, for plans and their bounds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace bert_hpc::data {

inline std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Most tokens in one of `parts` parts of `sequences` sequences no longer than `longest`; always attainable, because
/// parts filled to it in turn hold at least sequences / parts sequences each.
inline std::int64_t token_limit(std::int64_t sequences, std::int64_t parts, std::int64_t longest) {
  return std::max(ceil_divide(sequences, parts), std::int64_t{1}) * longest;
}

/// Most tokens in one of `parts` parts of `tokens` tokens: parts filled in turn end at most one sequence below it.
inline std::int64_t even_limit(std::int64_t tokens, std::int64_t parts, std::int64_t longest) {
  return parts == 1 ? tokens : std::min(tokens, ceil_divide(tokens, parts) + longest);
}

}  // namespace bert_hpc::data
