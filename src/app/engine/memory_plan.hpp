// The planned memory of a rank, by its purpose.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bert_hpc::app {

/// Purpose and bytes.
using MemoryPlan = std::vector<std::pair<std::string, std::int64_t>>;

std::int64_t total(const MemoryPlan& plan);

}  // namespace bert_hpc::app
