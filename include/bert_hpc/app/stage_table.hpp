// Which rank of a pipeline holds what: lines for the banner.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/app/application.hpp"
#include "bert_hpc/app/assembly.hpp"

namespace bert_hpc::app {

/// "embeddings, blocks 0 to 2; 23,840,256 parameters, 1.2 GiB a rank"
std::string stage_text(const Assembly& assembly, const MemoryPlan& memory);

/// Collective over all ranks where something will be computed. One line for each stage, with its first rank; none
/// without a pipeline. `text_at` tells about this rank's place, and in an estimate about any.
std::vector<std::pair<std::string, std::string>> stage_lines(
    const RunContext& context, const std::function<std::string(const comm::GridPlace&)>& text_at);

}  // namespace bert_hpc::app
