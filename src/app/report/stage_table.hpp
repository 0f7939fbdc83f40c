// Which rank of a grid holds what, for the banner: facts of every stage, drawn by grid_picture.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "app/engine/model_instance.hpp"
#include "app/report/grid_picture.hpp"
#include "app/run/run_context.hpp"

namespace bert_hpc::app {

/// What the rank of this model holds.
StageFacts stage_facts(const ModelInstance& model, const MemoryPlan& memory);

/// Collective over all ranks unless this is an estimate (--validate). Facts of every stage; none if the grid has
/// data parallelism only. `facts_at` gives those of this rank's coordinates, and in an estimate those of any.
std::vector<StageFacts> stage_table(const RunContext& context,
                                    const std::function<StageFacts(const comm::GridCoordinates&)>& facts_at);

/// The picture of the grid as lines of the banner; none without stages.
std::vector<std::pair<std::string, std::string>> stage_lines(const comm::GridShape& grid,
                                                             const std::vector<StageFacts>& stages);

/// Planned memory of the stage that needs most, bytes per rank; 0 without stages.
std::int64_t most_bytes(const std::vector<StageFacts>& stages);

}  // namespace bert_hpc::app
