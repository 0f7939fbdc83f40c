#include "app/plan/simulated_trace.hpp"

namespace bert_hpc::app {

io::Trace simulated_trace(const train::SimulationInput& simulated, const train::SimulatedStep& step) {
  const comm::GridShape& grid = simulated.grid;
  io::Trace trace;
  trace.facts = {{"kind", "simulated"},
                 {"schedule", grid.pipeline > 1 ? train::schedule_name(simulated.kind) : ""},
                 {"machine", simulated.machine.name},
                 {"grid", comm::describe(grid)}};
  for (int stage = 0; stage < grid.pipeline; ++stage) {
    const auto s = static_cast<std::size_t>(stage);
    const int rank = comm::rank_at(grid, {.data = 0, .pipeline = stage, .tensor = 0});
    trace.ranks.resize(static_cast<std::size_t>(rank) + 1);
    trace.ranks.back() = grid.pipeline > 1 ? "stage " + std::to_string(stage) : "each rank";
    double end = 0;
    for (const train::TimedInstruction& timed : step.pipeline.stages[s]) {
      const train::Instruction& i = timed.instruction;
      end = timed.end;
      if (timed.end <= timed.begin) continue;
      trace.events.push_back({.name = train::instruction_name(i.kind),
                              .category = train::computes(i) ? "compute" : "communication",
                              .rank = rank,
                              .begin = timed.begin,
                              .seconds = timed.end - timed.begin,
                              .micro_batch = i.micro_batch,
                              .virtual_stage = i.virtual_stage});
    }
    const auto add = [&](const char* name, const char* category, double begin, double until) {
      if (until > begin) {
        trace.events.push_back(
            {.name = name, .category = category, .rank = rank, .begin = begin, .seconds = until - begin});
      }
    };
    const train::StageTail& tail = step.tails[s];
    add("gradient_reduction", "communication", end, tail.sums_end);
    add("update", "update", tail.update_begin, tail.update_end);
    add("parameter_all_gather", "communication", tail.update_end, tail.share_end);
  }
  return trace;
}

}  // namespace bert_hpc::app
