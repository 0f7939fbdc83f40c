#include "app/report/stage_table.hpp"
#include "bert_hpc/comm/objects.hpp"

#include <algorithm>
#include <sstream>

namespace bert_hpc::app {
StageFacts stage_facts(const ModelInstance& model, const MemoryPlan& memory) {
  StageFacts facts{.sublayers = {}, .parameters = model.parameters.parameters(), .bytes = total(memory)};
  for (const model::Stage& stage : model.stages) {
    const model::ModelRange& range = stage.range();
    facts.sublayers.emplace_back(static_cast<int>(range.sublayers()),
                                 model::blocks_text(model.plan, range.first, range.last));
  }
  return facts;
}

std::vector<StageFacts> stage_table(const RunContext& context,
                                    const std::function<StageFacts(const comm::GridCoordinates&)>& facts_at) {
  const comm::GridShape& grid = context.grid;
  if (grid.pipeline == 1 && grid.tensor == 1) return {};
  std::vector<StageFacts> ranks;
  if (!context.invocation.validate) {
    ranks = comm::all_gather_objects(context.world, facts_at(comm::coordinates(grid, context.world.rank())));
  }
  std::vector<StageFacts> stages;
  for (int stage = 0; stage < grid.pipeline; ++stage) {
    const comm::GridCoordinates at{.data = 0, .pipeline = stage, .tensor = 0};
    stages.push_back(ranks.empty() ? facts_at(at) : ranks[static_cast<std::size_t>(comm::rank_at(grid, at))]);
  }
  return stages;
}

std::int64_t most_bytes(const std::vector<StageFacts>& stages) {
  std::int64_t most = 0;
  for (const StageFacts& stage : stages) most = std::max(most, stage.bytes);
  return most;
}

std::vector<std::pair<std::string, std::string>> stage_lines(const comm::GridShape& grid,
                                                             const std::vector<StageFacts>& stages) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (stages.empty()) return lines;
  std::istringstream picture(grid_picture(grid, stages));
  for (std::string line; std::getline(picture, line);) lines.emplace_back(lines.empty() ? "grid" : "", line);
  return lines;
}

}  // namespace bert_hpc::app
