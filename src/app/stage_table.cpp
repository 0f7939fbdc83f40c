#include "bert_hpc/app/stage_table.hpp"

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {

std::string stage_text(const Assembly& assembly, const MemoryPlan& memory) {
  std::string text;
  for (const model::Stage& stage : assembly.stages) {
    const model::BlockRange& range = stage.range();
    if (!text.empty()) text += "; ";
    if (range.embeddings) text += "embeddings, ";
    text += range.blocks() == 1 ? "block " : "blocks ";
    text += std::to_string(range.first);
    if (range.blocks() > 1) text += " to " + std::to_string(range.last - 1);
    if (range.head) text += ", head";
  }
  return text + "; " + core::with_commas(assembly.parameters.parameters()) + " parameters, " +
         core::format_bytes(total(memory)) + " a rank";
}

std::vector<std::pair<std::string, std::string>> stage_lines(
    const RunContext& context, const std::function<std::string(const comm::GridPlace&)>& text_at) {
  std::vector<std::pair<std::string, std::string>> lines;
  const comm::GridShape& grid = context.grid;
  if (grid.pipeline == 1) return lines;
  std::vector<std::string> texts;
  if (!context.invocation.validate) {
    texts = context.world.all_gather(text_at(comm::place(grid, context.world.rank())));
  }
  for (int stage = 0; stage < grid.pipeline; ++stage) {
    const comm::GridPlace place{.data = 0, .pipeline = stage, .tensor = 0};
    const int rank = comm::rank_at(grid, place);
    lines.emplace_back("stage " + std::to_string(stage),
                       "from rank " + std::to_string(rank) + ": " +
                           (texts.empty() ? text_at(place) : texts[static_cast<std::size_t>(rank)]));
  }
  return lines;
}

}  // namespace bert_hpc::app
