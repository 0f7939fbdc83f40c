// Cuts and numbers of micro-batches against those found by hand.
#include "bert_hpc/train/pipeline_plan.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <numeric>

using namespace bert_hpc;
using namespace bert_hpc::train;
using Catch::Approx;
using Counts = std::vector<std::int64_t>;

namespace {

/// A piece whose passes take `fixed` and as much again for each `per_token` tokens; backward twice that.
PieceSeconds piece(double fixed, double per_token) {
  return {.forward = {fixed, per_token}, .backward_input = {fixed, per_token}, .backward_weight = {fixed, per_token}};
}

PipelineQuestion question(const ModelSeconds& seconds, std::vector<int> micro_batches) {
  PipelineQuestion q;
  q.blocks = 8;
  q.seconds = {seconds, seconds};
  q.tokens = 1024;
  q.micro_batches = std::move(micro_batches);
  return q;
}

}  // namespace

TEST_CASE("two measurements give a line without negative parts") {
  const PassSeconds line = fit_line(100, 3, 300, 5);
  CHECK(line.fixed == Approx(2));
  CHECK(line.per_token == Approx(0.01));
  CHECK(fit_line(300, 5, 100, 3).fixed == Approx(2));
  CHECK(fit_line(100, 1, 300, 5).fixed == 0);  // would begin below zero
  CHECK(fit_line(100, 1, 300, 5).per_token == Approx(6.0 / 400));
  CHECK(fit_line(100, 5, 300, 3).per_token == 0);  // would fall
  CHECK(fit_line(100, 2, 100, 2).of(50) == Approx(1));
  CHECK(fit_line(0, 0, 0, 0).of(50) == 0);
}

TEST_CASE("more micro-batches shorten the bubble, until what each of them costs outweighs it") {
  // Without a fixed cost: of t seconds of work a stage, 1F1B takes t·(m + 1)/m.
  const ModelSeconds linear{.embeddings = {}, .block = piece(0, 1e-3), .last = piece(0, 1e-3)};
  const PipelinePlan many = plan_pipeline(question(linear, {2, 4, 8, 16}));
  CHECK(many.micro_batches == 16);
  CHECK(many.balance == Counts{4, 4});
  CHECK(many.seconds == Approx(4 * 3 * 1.024 * 17 / 16));
  CHECK(many.bubble == Approx(1.0 / 17));
  // With f seconds a pass of a block: (1.024/m + f)·(m + 1)·12, least at m = sqrt(1.024/f).
  const ModelSeconds dear{.embeddings = {}, .block = piece(0.064, 1e-3), .last = piece(0.064, 1e-3)};
  CHECK(plan_pipeline(question(dear, {2, 4, 8, 16})).micro_batches == 4);
}

TEST_CASE("the cut follows the measured pieces and the speed of each stage") {
  const PieceSeconds block = piece(0, 1e-3), nothing = piece(0, 0);
  // An even cut leaves the last stage 3 of 4; 5 + 3 would make the first the slowest.
  CHECK(plan_pipeline(question({nothing, block, nothing}, {8})).balance == Counts{4, 4});
  CHECK(plan_pipeline(question({piece(0, 2e-3), block, nothing}, {8})).balance == Counts{3, 5});
  CHECK(plan_pipeline(question({nothing, block, piece(0, 3e-3)}, {8})).balance == Counts{5, 3});
  PipelineQuestion uneven = question({nothing, block, block}, {8});
  uneven.seconds[1].block = uneven.seconds[1].last = piece(0, 3e-3);
  CHECK(plan_pipeline(uneven).balance == Counts{6, 2});
  uneven.balance = {4, 4};
  CHECK(plan_pipeline(uneven).balance == Counts{4, 4});
}

TEST_CASE("every schedule can be planned, with virtual stages too") {
  for (const auto kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1}) {
    PipelineQuestion q = question({piece(0, 1e-4), piece(0.001, 1e-3), piece(0, 1e-4)}, {2, 4, 8});
    q.kind = kind;
    q.virtual_stages = kind == ScheduleKind::interleaved ? 2 : 1;
    q.message_per_token = 1e-6;
    q.latency = 1e-5;
    const PipelinePlan plan = plan_pipeline(q);
    CHECK(plan.balance.size() == static_cast<std::size_t>(2 * q.virtual_stages));
    CHECK(std::accumulate(plan.balance.begin(), plan.balance.end(), std::int64_t{0}) == 8);
    CHECK(plan.bubble < 0.25);
  }
}

TEST_CASE("counted work gives a last block that costs less and passes with a fixed part") {
  core::MachineDescription machine;
  machine.flops = 1e11;
  machine.memory_bandwidth = 1e10;
  const ModelShape shape = model_shape({}, layers::HeadSettings::Kind::classification);
  const ModelSeconds modelled = modelled_seconds(shape, 128, 1.0 / 128, 1, machine);
  CHECK(modelled.last.of(1024) < 0.5 * modelled.block.of(1024));
  // A block's 7.1 million weights are read in each pass.
  CHECK(modelled.block.forward.fixed == Approx(4 * 7.08e6 / 1e10).epsilon(0.01));
  const MicroBatchShape batch{.tokens = 512, .squared_lengths = 512 * 128.0, .head_rows = 4};
  const PassWork work = part_work(shape, {.blocks = 1, .embeddings = false, .head = false}, batch, 1);
  CHECK(modelled.block.backward_weight.of(512) == Approx(seconds(work.backward_weight, machine)));
}
