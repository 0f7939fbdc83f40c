// Against the numbers of transformers.get_scheduler (5.23) for 3 warm-up steps of 10.
#include "bert_hpc/train/learning_rate.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

using bert_hpc::train::learning_rate_factor;
using bert_hpc::train::LearningRateSchedule;

namespace {

void agrees(const LearningRateSchedule& schedule, const std::vector<double>& expected) {
  for (std::size_t step = 0; step < expected.size(); ++step) {
    INFO("after " << step << " updates");
    // Both sides are a few roundings of numbers of order one.
    CHECK(std::abs(learning_rate_factor(schedule, static_cast<std::int64_t>(step)) - expected[step]) < 1e-14);
  }
}

LearningRateSchedule schedule(LearningRateSchedule::Kind kind) {
  LearningRateSchedule result;
  result.kind = kind;
  result.warmup_steps = 3;
  result.total_steps = 10;
  return result;
}

}  // namespace

TEST_CASE("schedules equal those of Transformers") {
  using Kind = LearningRateSchedule::Kind;
  agrees(schedule(Kind::linear),
         {0.0, 1.0 / 3, 2.0 / 3, 1.0, 6.0 / 7, 5.0 / 7, 4.0 / 7, 3.0 / 7, 2.0 / 7, 1.0 / 7, 0.0});
  agrees(schedule(Kind::cosine),
         {0.0, 1.0 / 3, 2.0 / 3, 1.0, 0.9504844339512095, 0.8117449009293668, 0.6112604669781572, 0.38873953302184283,
          0.18825509907063326, 0.04951556604879048, 0.0});
  agrees(schedule(Kind::constant), {0.0, 1.0 / 3, 2.0 / 3, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0});
  LearningRateSchedule polynomial = schedule(Kind::polynomial);
  polynomial.power = 2.0;
  polynomial.end_factor = 0.1;
  agrees(polynomial, {0.0, 1.0 / 3, 2.0 / 3, 1.0, 0.7612244897959185, 0.5591836734693878, 0.3938775510204081,
                      0.26530612244897966, 0.17346938775510204, 0.11836734693877553, 0.1});
}

TEST_CASE("a rate is stable between warm-up and decay, and falls linearly or with a root") {
  LearningRateSchedule stable = schedule(LearningRateSchedule::Kind::warmup_stable_decay);
  stable.decay_steps = 4;
  // get_wsd_schedule with num_decay_steps 4, linear and 1-sqrt (transformers 5.24)
  agrees(stable, {0.0, 1.0 / 3, 2.0 / 3, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0});
  stable.decay = LearningRateSchedule::Decay::one_minus_root;
  agrees(stable, {0.0, 1.0 / 3, 2.0 / 3, 1.0, 1.0, 1.0, 1.0, 0.5, 1.0 - std::sqrt(0.5), 1.0 - std::sqrt(0.75), 0.0});
  stable.end_factor = 0.2;
  CHECK(std::abs(learning_rate_factor(stable, 7) - 0.6) < 1e-14);
  CHECK(learning_rate_factor(stable, 12) == 0.2);
  stable.decay_steps = 0;
  CHECK(learning_rate_factor(stable, 9) == 1.0);
}

TEST_CASE("a schedule keeps its last value beyond the last step, and starts at the peak without warm-up") {
  LearningRateSchedule linear = schedule(LearningRateSchedule::Kind::linear);
  CHECK(learning_rate_factor(linear, 12) == 0.0);
  linear.warmup_steps = 0;
  CHECK(learning_rate_factor(linear, 0) == 1.0);
}
