// Time, cost and restarts of a planned run.
#include "app/plan/run_estimate.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace bert_hpc;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A thousand steps of 3.6 s, 100 s of evaluations.
app::RunPlan plan() {
  app::RunPlan plan;
  plan.steps = 1000;
  plan.step_seconds = 3.6;
  plan.evaluations = 4;
  plan.evaluation_seconds = 100;
  plan.every_steps = 100;
  plan.snapshot_seconds = 1;
  plan.writing_seconds = 10;
  plan.ranks = 96;
  plan.node_ranks = 64;
  return plan;
}

}  // namespace

TEST_CASE("the total is that of steps, evaluations and checkpoints; whole nodes are paid") {
  app::RunPlan p = plan();
  p.gpu = true;
  const app::RunEstimate run = app::estimate_run(p);
  CHECK(run.checkpoints == 10);
  CHECK(run.checkpoint_seconds == Approx(20));
  CHECK(run.seconds == Approx(3720));
  CHECK(run.nodes == 2);
  CHECK(run.node_hours == Approx(2 * 3720 / 3600.0));
  CHECK(run.gpu_hours == Approx(128 * 3720 / 3600.0));
  CHECK(run.restarts == 0);
  const std::string text = app::run_estimate_text(p, run);
  CHECK_THAT(text,
             ContainsSubstring("  total time  1 h 02 min: 1,000 steps in 1 h 00 min, 4 evaluations in 1 min 40 s, "
                               "10 checkpoints in 20 s\n"));
  CHECK_THAT(text, ContainsSubstring("2.07 node-hours, 132 GPU-hours (2 whole nodes of 64 GPUs, of which the run "
                                     "uses 96; run.node_ranks sets the size of a node)\n"));
  CHECK_THAT(text, ContainsSubstring("0 in jobs of 24 h (run.max_walltime is not set)\n"));
}

TEST_CASE("restarts follow from the time limit, less the margin for a checkpoint") {
  app::RunPlan p = plan();
  p.max_walltime = 1000;  // 975.8 s of them for steps
  const app::RunEstimate run = app::estimate_run(p);
  CHECK(run.restarts == 3);
  CHECK_THAT(app::run_estimate_text(p, run), ContainsSubstring("restarts    3 with run.max_walltime = 16 min 40 s\n"));
  p.max_walltime = 1;  // half of it at least is used
  CHECK(app::estimate_run(p).restarts == 7439);
}

TEST_CASE("checkpoints go by the clock, and years are said as years") {
  app::RunPlan p = plan();
  p.every_steps.reset();
  p.every_minutes = 30;
  CHECK(app::estimate_run(p).checkpoints == 2);
  p.every_minutes.reset();  // automatic: every ten minutes, or 50 times what writing takes
  const app::RunEstimate automatic = app::estimate_run(p);
  CHECK(automatic.checkpoints > 2);
  p.writing_seconds = 36;  // so every 30 minutes
  CHECK(app::estimate_run(p).checkpoints == 2);
  p.every_minutes = 30;
  p.steps = 100000;
  p.step_seconds = 1028;
  const app::RunEstimate run = app::estimate_run(p);
  CHECK(run.checkpoints == 57111);
  CHECK_THAT(app::run_estimate_text(p, run), ContainsSubstring("total time  3.3 years: 100,000 steps in 3.3 years"));
  CHECK(app::estimate_run({}).seconds == 0);
}
