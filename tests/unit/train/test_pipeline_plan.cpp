// Cuts and numbers of micro-batches against those found by hand.
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/train/pipeline_plan.hpp"
#include "support/heads.hpp"

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

/// Of a model of 16 sublayers that take half of `block` each, the last two half of `last`.
ModelSeconds model_of(const PieceSeconds& embeddings, const PieceSeconds& block, const PieceSeconds& last) {
  const auto half = [](PieceSeconds piece) {
    for (PassSeconds* pass : {&piece.forward, &piece.backward_input, &piece.backward_weight}) {
      pass->fixed /= 2;
      pass->per_token /= 2;
    }
    return piece;
  };
  ModelSeconds model{embeddings, std::vector(16, half(block))};
  model.sublayers[14] = model.sublayers[15] = half(last);
  return model;
}

PipelineQuestion question(const ModelSeconds& seconds, std::vector<int> micro_batches) {
  PipelineQuestion q;
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

TEST_CASE("more micro-batches shorten the bubble, until the cost of each micro-batch outweighs it") {
  // Without a fixed cost: of t seconds of work a stage, 1F1B takes t·(m + 1)/m.
  const ModelSeconds linear = model_of({}, piece(0, 1e-3), piece(0, 1e-3));
  const PipelinePlan many = plan_pipeline(question(linear, {2, 4, 8, 16}));
  CHECK(many.micro_batches == 16);
  CHECK(many.balance == Counts{8, 8});
  CHECK(many.seconds == Approx(4 * 3 * 1.024 * 17 / 16));
  CHECK(many.bubble == Approx(1.0 / 17));
  // With f seconds a pass of a block: (1.024/m + f)·(m + 1)·12, least at m = sqrt(1.024/f).
  const ModelSeconds dear = model_of({}, piece(0.064, 1e-3), piece(0.064, 1e-3));
  CHECK(plan_pipeline(question(dear, {2, 4, 8, 16})).micro_batches == 4);
}

TEST_CASE("the cut follows the measured pieces and the speed of each stage") {
  const PieceSeconds block = piece(0, 1e-3), nothing = piece(0, 0);
  // Seven blocks that cost something: three and a half for each.
  CHECK(plan_pipeline(question(model_of(nothing, block, nothing), {8})).balance == Counts{7, 9});
  CHECK(plan_pipeline(question(model_of(piece(0, 2e-3), block, nothing), {8})).balance == Counts{5, 11});
  CHECK(plan_pipeline(question(model_of(nothing, block, piece(0, 3e-3)), {8})).balance == Counts{10, 6});
  PipelineQuestion uneven = question(model_of(nothing, block, block), {8});
  uneven.seconds[1] = model_of(nothing, piece(0, 3e-3), piece(0, 3e-3));
  CHECK(plan_pipeline(uneven).balance == Counts{12, 4});
  uneven.balance = {8, 8};
  CHECK(plan_pipeline(uneven).balance == Counts{8, 8});
  // A block whose feed-forward is three times its attention: 8·4 - 3 = 29 is best cut at 16 or 13.
  ModelSeconds uneven_block{{}, std::vector(16, piece(0, 1e-3))};
  for (const std::size_t i : {1, 3, 5, 7, 9, 11, 13}) uneven_block.sublayers[i] = piece(0, 3e-3);
  uneven_block.sublayers[15] = nothing;
  PipelineQuestion lopsided = question(uneven_block, {8});
  CHECK(plan_pipeline(lopsided).balance == Counts{8, 8});
}

TEST_CASE("a message knows the cut that it passes") {
  const Counts balance = {3, 4, 5, 4};  // two stages, two virtual stages each
  CHECK(sublayer_after(balance, 2, 0, {.peer = 1, .forward = true, .virtual_stage = 0}) == 3);
  CHECK(sublayer_after(balance, 2, 1, {.peer = 0, .forward = true, .virtual_stage = 0}) == 7);
  CHECK(sublayer_after(balance, 2, 0, {.peer = 1, .forward = false, .virtual_stage = 1}) == 7);
  CHECK(sublayer_after(balance, 2, 1, {.peer = 0, .forward = false, .virtual_stage = 1}) == 12);
}

TEST_CASE("every schedule can be planned, with virtual stages too") {
  for (const auto kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1}) {
    PipelineQuestion q = question(model_of(piece(0, 1e-4), piece(0.001, 1e-3), piece(0, 1e-4)), {2, 4, 8});
    q.kind = kind;
    q.virtual_stages = kind == ScheduleKind::interleaved ? 2 : 1;
    q.message_per_token = 1e-6;
    q.latency = 1e-5;
    const PipelinePlan plan = plan_pipeline(q);
    CHECK(plan.balance.size() == static_cast<std::size_t>(2 * q.virtual_stages));
    CHECK(std::accumulate(plan.balance.begin(), plan.balance.end(), std::int64_t{0}) == 16);
    CHECK(plan.bubble < 0.25);
  }
}

TEST_CASE("counted work gives a last block that costs less and passes with a fixed part") {
  core::MachineDescription machine;
  machine.flops = 1e11;
  machine.memory_bandwidth = 1e10;
  const model::ModelPlan plan = model::make_plan({}, test::classification_head, 2);
  const ModelSeconds modelled = modelled_seconds(plan, 128, 1.0 / 128, 1, machine);
  const PieceSeconds &attention = modelled.sublayers[0], &feed_forward = modelled.sublayers[1];
  REQUIRE(modelled.sublayers.size() == 24);
  CHECK(modelled.sublayers[22].of(1024) < 0.7 * attention.of(1024));
  CHECK(modelled.sublayers[23].of(1024) < 0.3 * feed_forward.of(1024));
  CHECK(modelled.sublayers[20].of(1024) == attention.of(1024));
  // A block's 7.1 million weights are read in each pass.
  CHECK(attention.forward.fixed + feed_forward.forward.fixed == Approx(4 * 7.08e6 / 1e10).epsilon(0.01));
  const layers::BatchShape batch{.tokens = 512, .squared_lengths = 512 * 128.0, .logit_positions = 4};
  const layers::PassWork work =
      range_costs(plan, {.first = 0, .last = 2, .embeddings = false, .head = false}, batch).work;
  CHECK(attention.backward_weight.of(512) + feed_forward.backward_weight.of(512) ==
        Approx(model::seconds(work.backward_weight, machine)));
}
