// A run's simulation from its own times, against a trace written by hand.
#include "app/plan/calibrated_simulation.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/model/make_plan.hpp"
#include "support/heads.hpp"

using namespace bert_hpc;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

train::SimulationInput two_stages(int micro_batches) {
  train::SimulationInput in;
  in.model = model::make_plan({}, test::classification_head, 2);
  in.grid = {.data = 1, .pipeline = 2, .tensor = 1};
  in.kind = train::ScheduleKind::gpipe;
  in.balance = {12, 12};
  in.micro_batches.assign(static_cast<std::size_t>(micro_batches), {.tokens = 10, .logit_positions = 1});
  in.machine.flops = in.machine.memory_bandwidth = 1e30;
  in.machine.in_node = in.machine.between_nodes = {.bandwidth = 1e30};
  return in;
}

/// Steps of forward and backward of two micro-batches, with a pause of `late` seconds before each pass of stage 1; the
/// second stage is twice as slow.
io::Trace trace_of(int steps, double late) {
  io::Trace trace;
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      double now = 100.0 * step;
      const double slow = rank + 1.0;
      const auto add = [&](const char* name, const char* category, double seconds, int micro_batch) {
        trace.events.push_back({.name = name,
                                .category = category,
                                .rank = rank,
                                .begin = now,
                                .seconds = seconds,
                                .step = step,
                                .micro_batch = micro_batch});
        now += seconds;
      };
      for (int m = 0; m < 2; ++m) {
        now += rank * late;
        add("forward", "compute", slow, m);
      }
      for (int m = 0; m < 2; ++m) {
        now += rank * late;
        add("backward", "compute", 2 * slow, m);
      }
      add("gradient_reduction", "communication", 20 - now + 100.0 * step + 0.5, -1);  // together at 20.5
      add("update", "update", slow, -1);
      add("parameter_all_gather", "communication", 3 - slow, -1);
    }
  }
  return trace;
}

}  // namespace

TEST_CASE("a step is simulated with its measured times, without the pauses between them") {
  const app::CalibratedSimulation own = app::simulate_from_trace(two_stages(2), trace_of(3, 0.5));
  // GPipe: 1 + 2·2 forward, 2·4 backward, then 2 of stage 0.
  CHECK(own.simulated.pipeline.seconds == Approx(15));
  CHECK(own.simulated.bubble == Approx(1 - 18.0 / 30));
  // Stage 1 had 2·2 + 2·4 seconds of passes and four pauses: its sums took the least, from 14 on.
  CHECK(own.simulated.tails[0].sums_end == Approx(15 + 6.5));
  CHECK(own.simulated.seconds == Approx(15 + 6.5 + 2 + 1));
  CHECK(own.measured_seconds == Approx(23.5));
  CHECK(own.measured_bubble == Approx(1 - 18.0 / 28));
  CHECK_THAT(app::calibrated_simulation_text(own),
             ContainsSubstring("bubble 35.7%") && ContainsSubstring("bubble 40%"));
}

TEST_CASE("micro-batches that no traced step had get the times of the others") {
  const app::CalibratedSimulation own = app::simulate_from_trace(two_stages(3), trace_of(1, 0));
  CHECK(own.simulated.pipeline.seconds == Approx(1 + 3 * 2 + 3 * 4 + 2));
}
