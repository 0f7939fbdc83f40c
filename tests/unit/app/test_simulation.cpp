// The simulated step in the report of --validate, and the events of measured steps.
#include "app/plan/simulated_trace.hpp"
#include "app/plan/simulation.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "app/report/step_trace.hpp"
#include "support/heads.hpp"

using namespace bert_hpc;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Two replicas of two micro-batches, a sequence each; the second replica has more to do.
core::BatchPlan plan() {
  core::BatchPlan result;
  result.samples = {{0, 10}, {1, 20}, {2, 30}, {3, 40}};
  result.chunk_begin = {0, 1, 2, 3, 4};
  result.micro_begin = {0, 1, 2, 3, 4};
  result.replica_begin = {0, 2, 4};
  return result;
}

core::MachineDescription machine() {
  core::MachineDescription result;
  result.name = "test machine";
  result.node_ranks = 2;
  result.memory = 1e6;
  result.flops = 1e11;
  result.memory_bandwidth = 1e10;
  result.in_node = result.between_nodes = {.bandwidth = 1e9, .latency = 1e-6};
  return result;
}

train::SimulationInput simulated(const std::optional<core::MachineDescription>& on) {
  config::Config input;
  input.parallel.pipeline_schedule = "gpipe";
  return app::simulation_input(input, {}, test::classification_head, {.data = 2, .pipeline = 2}, {13, 11}, plan(), on);
}

}  // namespace

TEST_CASE("the replica with the most work is simulated, on the grid and balance of the input") {
  const train::SimulationInput in = simulated(machine());
  CHECK(in.kind == train::ScheduleKind::gpipe);
  CHECK(in.balance == std::vector<std::int64_t>{13, 11});
  CHECK(in.step_tokens == 100);
  REQUIRE(in.micro_batches.size() == 2);
  CHECK(in.micro_batches[1].tokens == 40);
  CHECK(in.micro_batches[1].squared_lengths == 1600);
  CHECK(in.micro_batches[1].logit_positions == 1);
}

TEST_CASE("the text has stages, and times where the machine is known") {
  const train::SimulationInput in = simulated(machine());
  const std::string text = app::simulation_text(in, train::simulate_step(in), true);
  CHECK_THAT(text, ContainsSubstring("on test machine (rates not measured)"));
  CHECK_THAT(text, ContainsSubstring("gpipe, 2 stages, 2 micro-batches per replica: bubble "));
  CHECK_THAT(text, ContainsSubstring("stage 1     blocks feed-forward of 6, 7-11, "));
  CHECK_THAT(text, ContainsSubstring("tokens/s"));

  const train::SimulationInput unknown = simulated(std::nullopt);
  const std::string shares = app::simulation_text(unknown, train::simulate_step(unknown), false);
  CHECK_THAT(shares, ContainsSubstring("bubble "));
  CHECK_THAT(shares, ContainsSubstring("[run] machine"));
  CHECK_THAT(shares, !ContainsSubstring("tokens/s"));
}

TEST_CASE("a simulated trace has a row a stage and everything a step consists of") {
  const train::SimulationInput in = simulated(machine());
  const train::SimulatedStep step = train::simulate_step(in);
  const io::Trace trace = app::simulated_trace(in, step);
  CHECK(trace.ranks == std::vector<std::string>{"stage 0", "", "stage 1"});  // rank = stage · 2 replicas
  double end = 0;
  std::size_t computed = 0;
  for (const io::TraceEvent& event : trace.events) {
    end = std::max(end, event.begin + event.seconds);
    computed += event.category == "compute" ? 1 : 0;
  }
  CHECK(computed == 2 * 2 * 2);  // forward and backward of two micro-batches in two stages
  CHECK(end == Approx(step.seconds));
}

TEST_CASE("measured passes get their micro-batches from the executed schedule") {
  using Kind = train::Instruction::Kind;
  const core::Timers::Clock::time_point zero{};
  const auto at = [&](int ms) { return zero + std::chrono::milliseconds(ms); };
  const std::vector<core::Timers::Span> spans = {{"forward", at(1), at(2)},
                                                 {"pipeline wait", at(2), at(3)},
                                                 {"backward input", at(3), at(4)},
                                                 {"gradient reduction", at(4), at(6)}};
  const std::vector<train::TimedInstruction> executed = {
      {{Kind::receive_forward, 5}, 0, 0}, {{Kind::forward, 5, 1}, 0, 0}, {{Kind::backward_input, 3}, 0, 0}};
  const auto events = app::step_events(spans, executed, zero, 2, 9);
  REQUIRE(events.size() == 4);
  CHECK(events[0].micro_batch == 5);
  CHECK(events[0].virtual_stage == 1);
  CHECK(events[1].name == "pipeline_wait");
  CHECK(events[1].micro_batch == -1);
  CHECK(events[2].name == "backward_input");
  CHECK(events[2].micro_batch == 3);
  CHECK(events[3].seconds == Approx(0.002));
  CHECK(events[3].rank == 2);
  CHECK(events[3].step == 9);
  CHECK(app::step_events(spans, {}, zero, 0, 0)[2].micro_batch == 0);  // counted where no micro-batch is known
}
