// Numbers of rows and sequences in arrays that have an element for each: four bytes, as there may be hundreds of
// millions.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::prep {

using RowNumber = std::uint32_t;
inline constexpr std::int64_t most_rows = std::numeric_limits<RowNumber>::max();

/// Throws Error(data) if there are more than `most_rows`; what: "row" or "sequence".
inline void require_numbers(std::int64_t count, const char* what) {
  if (count <= most_rows) return;
  throw core::Error(core::ExitCode::data,
                    std::string("The source has more than ") + core::counted(most_rows, what) +
                        ". Prepare its files in parts, each with the same [tokenizer] vocabulary and with an "
                        "[output] directory of its own: [data] train takes the shards of several.");
}

}  // namespace bert_hpc::prep
