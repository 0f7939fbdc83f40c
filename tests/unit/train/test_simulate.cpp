// The simulated step against sums done by hand on small grids.
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/train/simulate.hpp"
#include "support/heads.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

using namespace bert_hpc;
using namespace bert_hpc::train;
using Catch::Approx;
using Kind = Instruction::Kind;

namespace {

SimulationInput input(comm::GridShape grid, int micro_batches) {
  SimulationInput in;
  in.model = model::make_plan({}, test::classification_head, 2);
  in.grid = grid;
  in.balance.assign(static_cast<std::size_t>(grid.pipeline), 24 / grid.pipeline);
  in.micro_batches.assign(static_cast<std::size_t>(micro_batches),
                          {.tokens = 1024, .squared_lengths = 8 * 128.0 * 128.0, .logit_positions = 8});
  in.step_tokens = 1024.0 * micro_batches * grid.data;
  in.machine.node_ranks = 4;
  in.machine.flops = 1e11;
  in.machine.memory_bandwidth = 3e10;
  in.machine.in_node = {.bandwidth = 1e10, .latency = 1e-6};
  in.machine.between_nodes = {.bandwidth = 1e9, .latency = 1e-5};
  return in;
}

double equal_times(int, const Instruction& i) {
  return i.kind == Kind::backward ? 2.0 : 1.0;
}

}  // namespace

TEST_CASE("one rank computes all the time but for the update") {
  const SimulationInput in = input({}, 3);
  const SimulatedStep step = simulate_step(in);
  CHECK(step.bubble == Approx(0).margin(1e-12));
  CHECK(step.exposed == Approx(0).margin(1e-12));
  const layers::PassWork work = range_costs(in.model, {.first = 0, .last = 24}, in.micro_batches[0]).work;
  const double passes = model::seconds(work.forward, in.machine) + model::seconds(work.backward_input, in.machine) +
                        model::seconds(work.backward_weight, in.machine);
  const double update = 28 * range_parameters(in.model, {.first = 0, .last = 24}) / in.machine.memory_bandwidth;
  CHECK(step.seconds == Approx(3 * passes + update));
  CHECK(step.tokens_per_second == Approx(3072 / step.seconds));
  CHECK(step.loads[0].sent_pipeline + step.loads[0].sent_data + step.loads[0].sent_tensor == 0);
}

TEST_CASE("with measured times, the bubble of four stages and 16 micro-batches is the schedule's") {
  SimulationInput in = input({.pipeline = 4}, 16);
  in.measured = equal_times;
  // Messages of 3 MB take 0.3 ms and passes a second, so that the formula holds to some thousandths.
  CHECK(simulate_step(in).bubble == Approx(9.0 / 57.0).margin(2e-3));
  CHECK(simulate_step(in).bubble <= 0.20);
  in.kind = ScheduleKind::zb_h1;
  CHECK(simulate_step(in).bubble == Approx(3.0 / 51.0).margin(2e-3));
  CHECK(simulate_step(in).bubble <= 0.08);
}

TEST_CASE("the bytes over each link are counted") {
  // Rank = (pipeline·2 + data)·2 + tensor: tensor and data groups share a node of four, stages do not.
  SimulationInput in = input({.data = 2, .pipeline = 2, .tensor = 2}, 4);
  const SimulatedStep step = simulate_step(in);
  const StageLoad& first = step.loads[0];
  const double rows = 4.0 * 1024 * 768;        // bytes of a micro-batch's activations
  CHECK(first.sent_pipeline == 4 * rows / 2);  // forward only, half of the rows each
  // Of the word embeddings' gradient, the rows of 2 · 4096 tokens at most; of what is gathered, everything.
  const double untouched = (30522.0 - 8192.0) * 768 / 2;
  CHECK(first.sent_data == (4 * (first.parameters - untouched) + 4 * first.parameters) / 2);
  CHECK(first.sent_tensor == 4 * (6 * 2 * 4 * rows / 2));  // four micro-batches, six blocks, both passes, four rings
  CHECK(first.pipeline_leaves_node);
  CHECK(!first.data_leaves_node);
  CHECK(!first.tensor_leaves_node);
  in.machine.node_ranks = 2;
  CHECK(simulate_step(in).loads[0].data_leaves_node);
  in.machine.node_ranks = 8;
  CHECK(!simulate_step(in).loads[0].pipeline_leaves_node);
}

TEST_CASE("after the last attention only the rows that the head reads are sent") {
  SimulationInput in = input({.pipeline = 2}, 4);
  in.balance = {23, 1};
  const auto loads = simulate_step(in).loads;
  CHECK(loads[0].sent_pipeline == 4 * (4.0 * 8 * 768));  // four micro-batches of eight sequences, floats
  CHECK(loads[1].sent_pipeline == loads[0].sent_pipeline);
  in.balance = {22, 2};
  CHECK(simulate_step(in).loads[1].sent_pipeline == 4 * (4.0 * 1024 * 768));
}

TEST_CASE("memory follows the schedule and the ZeRO stage") {
  SimulationInput in = input({.data = 4, .pipeline = 4}, 16);
  const auto loads = [&] { return simulate_step(in).loads; };
  const layers::LayerCosts costs =
      range_costs(in.model, {.first = 6, .last = 12, .embeddings = false, .head = false}, in.micro_batches[0]);
  const double one = costs.saved_bytes;
  CHECK(loads()[1].activation_bytes == 3 * one);
  in.kind = ScheduleKind::gpipe;
  CHECK(loads()[1].activation_bytes == 16 * one);
  in.kind = ScheduleKind::zb_h1;
  // Weight gradients of the second stage come one micro-batch late: two are between the parts of backward.
  CHECK(loads()[1].activation_bytes == 4 * one + 2 * costs.deferred_bytes);
  CHECK(loads()[1].state_bytes == 16 * loads()[1].parameters);
  in.zero = 1;
  CHECK(loads()[1].state_bytes == 10 * loads()[1].parameters);
  in.zero = 2;
  CHECK(loads()[1].state_bytes == 7 * loads()[1].parameters);
}

TEST_CASE("gradient sums overlap with the last backward pass, and are exposed where links are slow") {
  SimulationInput in = input({.data = 4}, 2);
  in.zero = 1;
  in.machine.in_node = {.bandwidth = 1e13, .latency = 0};
  CHECK(simulate_step(in).exposed < 1e-3);
  in.machine.in_node = {.bandwidth = 1e7, .latency = 0};
  const SimulatedStep step = simulate_step(in);
  const double ring = 4 * step.loads[0].parameters * 3 / 4 / 1e7;
  CHECK(step.tails[0].share_end - step.tails[0].update_end == Approx(ring));
  CHECK(step.exposed > 0.5);
}

TEST_CASE("without ZeRO sums are gathered and every rank updates all parameters") {
  SimulationInput in = input({.data = 4}, 2);
  in.machine.in_node = {.bandwidth = 1e7, .latency = 0, .reduce_bandwidth = 1e13, .gather_bandwidth = 1e8};
  const auto tail = [&] { return simulate_step(in).tails[0]; };
  const double bytes = 4 * simulate_step(in).loads[0].parameters, gather = bytes * 3 / 4 / 1e8;
  CHECK(tail().update_end - tail().update_begin == Approx(7 * bytes / 3e10));
  CHECK(tail().share_end == tail().update_end);
  CHECK(simulate_step(in).exposed * simulate_step(in).seconds > 0.5 * gather);
  in.zero = 1;
  CHECK(tail().update_end - tail().update_begin == Approx(7 * bytes / 4 / 3e10));
  CHECK(tail().share_end - tail().update_end == Approx(gather));
}

TEST_CASE("an evaluation is forward passes alone, shared by the replicas") {
  SimulationInput in = input({.data = 2}, 1);
  const layers::BatchShape all = {.tokens = 8192, .squared_lengths = 64 * 128.0 * 128.0, .logit_positions = 64};
  const layers::BatchShape one = {.tokens = 2048, .squared_lengths = 16 * 128.0 * 128.0, .logit_positions = 16};
  const double pass = model::seconds(range_costs(in.model, {.first = 0, .last = 24}, one).work.forward, in.machine);
  CHECK(evaluation_seconds(in, all, 2048) == Approx(2 * pass));
  CHECK(evaluation_seconds(in, {}, 2048) == 0);
  in = input({.data = 2, .pipeline = 2}, 1);
  CHECK(evaluation_seconds(in, all, 2048) > 1.5 * pass);
  CHECK(evaluation_seconds(in, all, 2048) < 2 * pass);
}

TEST_CASE("a model that is only applied takes the forward passes of a step, which fill a pipeline once") {
  SimulationInput in = input({.data = 2}, 3);
  const auto pass = [&](const model::ModelRange& range) {
    return model::seconds(range_costs(in.model, range, in.micro_batches[0]).work.forward, in.machine);
  };
  CHECK(forward_seconds(in) == Approx(3 * pass({.first = 0, .last = 24})));
  in = input({.data = 2, .pipeline = 2}, 3);
  // The first stage is the slowest: after the last attention the second stage computes only the head's rows.
  const std::vector<model::ModelRange> stages = model::ranges_of(in.balance);
  CHECK(pass(stages[0]) > pass(stages[1]));
  CHECK(forward_seconds(in) == Approx(4 * pass(stages[0])));
}

TEST_CASE("a step has the machine's overhead once") {
  SimulationInput in = input({.data = 2}, 2);
  const double before = simulate_step(in).seconds;
  in.machine.step_overhead = 0.5;
  CHECK(simulate_step(in).seconds == Approx(before + 0.5));
}

TEST_CASE("ranks that share cores lose time to the bubble only while cores are idle") {
  SimulationInput in = input({.pipeline = 4}, 16);
  const SimulatedStep own = simulate_step(in);
  in.machine.core_share = 0.25;
  const SimulatedStep shared = simulate_step(in);
  CHECK(shared.bubble == own.bubble);
  CHECK(shared.pipeline.seconds == Approx(own.pipeline.seconds * (1 - own.bubble)).epsilon(0.02));
  in.machine.core_share = 0.95;  // most of a core is a rank's own: while all compute, the rates are as measured
  const double most = simulate_step(in).pipeline.seconds;
  CHECK(most > 0.95 * own.pipeline.seconds);
  CHECK(most < own.pipeline.seconds);
}

TEST_CASE("the scale of shared cores, by hand") {
  // GPipe, two stages, two micro-batches, every pass 1 s: of 6 s, both stages compute in 2 s, one of them in 4 s.
  PipelineDurations durations;
  durations.compute = [](int, const Instruction&) { return 1.0; };
  const Timeline timeline = play(make_schedules(ScheduleKind::gpipe, 2, 2), durations);
  REQUIRE(timeline.seconds == Approx(6));
  CHECK(shared_core_scale(timeline, 1) == Approx(1));
  CHECK(shared_core_scale(timeline, 0.75) == Approx((2 * 1 + 4 * 0.75) / 6));
  CHECK(shared_core_scale(timeline, 0.5) == Approx((2 * 1 + 4 * 0.5) / 6));
  CHECK(shared_core_scale(timeline, 0.25) == Approx(1 - bubble(timeline)));
}

TEST_CASE("a thousand ranks are simulated") {
  SimulationInput in = input({.data = 64, .pipeline = 4, .tensor = 4}, 32);
  in.kind = ScheduleKind::interleaved;
  in.virtual_stages = 3;
  in.balance.assign(12, 2);
  const SimulatedStep step = simulate_step(in);
  CHECK(step.pipeline.stages.size() == 4);
  CHECK(step.bubble > 0);
  CHECK(step.bubble < 0.5);
  CHECK(step.loads[0].data_leaves_node);
}
