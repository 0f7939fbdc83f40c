// Which rank of a grid holds what, for the banner: facts of every stage, drawn by grid_picture.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/app/application.hpp"
#include "bert_hpc/app/assembly.hpp"
#include "bert_hpc/app/grid_picture.hpp"

namespace bert_hpc::app {

/// What the rank of this assembly holds.
StageFacts stage_facts(const Assembly& assembly, const MemoryPlan& memory);

/// Collective over all ranks where something will be computed. The picture as lines of the banner; none where ranks
/// only share batches. `facts_at` tells about this rank's place, and in an estimate about any.
std::vector<std::pair<std::string, std::string>> stage_lines(
    const RunContext& context, const std::function<StageFacts(const comm::GridPlace&)>& facts_at);

}  // namespace bert_hpc::app
