// Sizes and positions of the steps of a run whose batches grow, against a walk through the epochs step by step.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/batch_sampler.hpp"
#include "bert_hpc/data/batch_schedule.hpp"

using namespace bert_hpc::data;
using Catch::Matchers::WithinAbs;

namespace {

struct Step {
  std::int64_t epoch = 0, begin = 0, end = 0, size = 0;
  bool operator==(const Step&) const = default;
};

/// The walk: step by step, a new epoch where nothing (or with drop_last no whole batch) is left.
std::vector<Step> walk(std::int64_t samples, bool drop_last, const std::vector<std::int64_t>& sizes) {
  std::vector<Step> steps;
  std::int64_t epoch = 0, begin = 0;
  for (const std::int64_t size : sizes) {
    if (begin == samples || (drop_last && samples - begin < size)) {
      ++epoch;
      begin = 0;
    }
    steps.push_back({epoch, begin, std::min(begin + size, samples), size});
    begin = steps.back().end;
  }
  return steps;
}

Step step_of(const BatchSchedule& schedule, std::int64_t step) {
  const BatchSchedule::Stretch found = schedule.stretch_of(step);
  REQUIRE(step >= found.first_step);
  REQUIRE(step < found.first_step + found.steps);
  const std::int64_t begin = found.begin + (step - found.first_step) * found.size;
  return {found.epoch, begin, std::min(begin + found.size, found.end), found.size};
}

}  // namespace

TEST_CASE("growing batches take an epoch piece by piece") {
  for (const std::int64_t samples : {23L, 61L, 64L, 100L}) {
    for (const bool drop_last : {false, true}) {
      // Sizes 5, 8, 11, … 20 over 50 steps, ten of each size.
      const BatchSchedule schedule(samples, 20, drop_last, {.start = 5, .increment = 3, .steps = 50});
      std::vector<std::int64_t> sizes;
      for (int step = 0; step < 120; ++step) sizes.push_back(std::min(20, 5 + 3 * (step / 10)));
      const std::vector<Step> expected = walk(samples, drop_last, sizes);
      for (std::int64_t step = 0; step < 120; ++step) {
        INFO(samples << " samples, step " << step);
        CHECK(step_of(schedule, step) == expected[static_cast<std::size_t>(step)]);
      }
    }
  }
}

TEST_CASE("sizes share the sequences of a warm-up equally") {
  // ModernBERT-base: 768 to 4,608 sequences over 50e9 tokens of sequences with 1,000 tokens, an epoch of 1e9 sequences.
  const BatchSchedule schedule(1'000'000'000, 4608, false, {.start = 768, .increment = 768, .epochs = 0.05});
  CHECK(schedule.sizes() == 6);
  std::int64_t step = 0, drawn = 0;
  for (int size = 1; size <= 5; ++size) {
    std::int64_t of_size = 0;
    while (schedule.size_of(step) == 768 * size) {
      ++step;
      of_size += 768 * size;
    }
    drawn += of_size;
    CHECK(std::abs(of_size - 10'000'000) <= 2 * 768 * size);
  }
  CHECK(step == schedule.first_full_step());
  CHECK(drawn >= 50'000'000);
  CHECK(drawn < 50'000'000 + 3840);
  CHECK(schedule.size_of(step) == 4608);
  CHECK_THAT(schedule.mean_size(0, step), WithinAbs(static_cast<double>(drawn) / static_cast<double>(step), 1e-9));
}

TEST_CASE("a warm-up shorter than its number of sizes leaves some out") {
  const BatchSchedule schedule(1000, 100, false, {.start = 10, .increment = 1, .steps = 9});
  CHECK(schedule.first_full_step() == 9);
  CHECK(schedule.size_of(0) < schedule.size_of(8));
  for (int step = 1; step < 12; ++step) CHECK(schedule.size_of(step) >= schedule.size_of(step - 1));
  CHECK(schedule.size_of(9) == 100);
}

TEST_CASE("the number of steps of a length in epochs is the least that reaches it") {
  const BatchSchedule grows(100, 8, false, {.start = 2, .increment = 2, .epochs = 0.9});
  for (const double epochs : {0.01, 0.2, 0.5, 0.77, 1.0, 1.5, 3.0}) {
    const std::int64_t steps = grows.steps_of(epochs);
    CHECK(grows.epochs_of(steps) >= epochs - 1e-12);
    if (steps > 1) CHECK(grows.epochs_of(steps - 1) < epochs);
  }
  CHECK(grows.steps_of(1) > 13);  // full batches need 13
  CHECK(grows.steps_of(3) - grows.steps_of(2) == 13);
  CHECK(grows.ends_epoch(grows.steps_of(1)));
  CHECK_THAT(grows.epochs_of(grows.steps_of(2)), WithinAbs(2, 1e-12));
  CHECK_THROWS_AS(grows.steps_of(1e300), bert_hpc::core::Error);
}

TEST_CASE("growing batches of an epoch hold every sample once, in every order, from any step on") {
  std::vector<std::int32_t> lengths(203);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = 1 + static_cast<std::int32_t>((i * 7919) % 97);
  for (const Order order : {Order::random, Order::file, Order::by_length}) {
    const BatchSamplerOptions options{.sampler = {.seed = 3, .order = order},
                                      .global_batch = 16,
                                      .group = 8,
                                      .warmup = {.start = 4, .increment = 4, .steps = 60}};
    BatchSampler sampler(lengths, options);
    std::vector<std::int64_t> all, batch, again;
    std::int64_t step = 0;
    for (; sampler.schedule().epoch_of(step) < 2; ++step) {
      sampler.batch(step, batch);
      BatchSampler resumed(lengths, options);
      resumed.batch(step, again);
      CHECK(again == batch);
      if (sampler.schedule().epoch_of(step) == 1) all.insert(all.end(), batch.begin(), batch.end());
    }
    std::sort(all.begin(), all.end());
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
    CHECK(all.size() == 203);
  }
}
