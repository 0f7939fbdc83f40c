// The table that BERT_HPC_COUNT_LAUNCHES=1 prints. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "bert_hpc/core/call_count.hpp"

namespace bert_hpc::app {

/// Calls of one step by section and kind, then by name.
std::string call_table(const core::CallCount& count, std::int64_t step);

}  // namespace bert_hpc::app
