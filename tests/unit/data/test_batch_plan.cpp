// Properties that every plan has, on random batches; and the refusals.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <numeric>
#include <random>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/batch_plan.hpp"

using namespace bert_hpc;
using core::BatchPlan;
using core::PlannedSample;
using data::BatchPlanOptions;

namespace {

struct Batch {
  std::vector<std::int64_t> samples;
  std::vector<std::int32_t> lengths;
};

Batch random_batch(std::mt19937_64& random, std::int64_t sequences, std::int32_t longest) {
  std::set<std::int64_t> distinct;
  while (static_cast<std::int64_t>(distinct.size()) < sequences)
    distinct.insert(static_cast<std::int64_t>(random() % 100000));
  Batch batch;
  batch.samples.assign(distinct.begin(), distinct.end());
  std::shuffle(batch.samples.begin(), batch.samples.end(), random);
  for (std::int64_t i = 0; i < sequences; ++i) {
    // Squared, so that most are short, as in real text.
    const double u = static_cast<double>(random() % 1000) / 1000.0;
    batch.lengths.push_back(1 + static_cast<std::int32_t>(u * u * (longest - 1)));
  }
  return batch;
}

std::int64_t work(std::span<const PlannedSample> run, std::int64_t hidden) {
  std::int64_t sum = 0;
  for (const auto& s : run) sum += s.length * (6 * hidden + s.length);
  return sum;
}

std::int64_t tokens(std::span<const PlannedSample> run) {
  std::int64_t sum = 0;
  for (const auto& s : run) sum += s.length;
  return sum;
}

void check_structure(const BatchPlan& plan, const Batch& batch, const BatchPlanOptions& options, std::int32_t longest) {
  REQUIRE(plan.replicas() == options.replicas);
  const auto before = [](auto a, auto b) { return a.length != b.length ? a.length < b.length : a.index < b.index; };
  std::vector<PlannedSample> expected;
  for (std::size_t i = 0; i < batch.samples.size(); ++i) expected.push_back({batch.samples[i], batch.lengths[i]});
  std::sort(expected.begin(), expected.end(), before);
  std::vector<PlannedSample> planned = plan.samples;
  std::sort(planned.begin(), planned.end(), before);
  REQUIRE(planned == expected);
  for (int c = 0; c < plan.chunks(); ++c) {
    const auto chunk = plan.chunk(c);
    CHECK(std::is_sorted(chunk.begin(), chunk.end(), before));
  }
  // Runs that begin at 0, never go back, and end at the end cover everything once.
  const auto covers = [](const std::vector<std::int32_t>& begins, std::int64_t count) {
    return begins.front() == 0 && begins.back() == count && std::is_sorted(begins.begin(), begins.end());
  };
  REQUIRE(covers(plan.chunk_begin, plan.sequences()));
  REQUIRE(covers(plan.micro_begin, plan.chunks()));
  REQUIRE(covers(plan.replica_begin, plan.micro_batches()));
  const auto bounds = data::bounds(options, longest);
  for (int r = 0; r < plan.replicas(); ++r) {
    CHECK(tokens(plan.replica(r)) <= bounds.replica_tokens);
    CHECK(static_cast<std::int64_t>(plan.replica(r).size()) <= bounds.replica_sequences);
    const auto i = static_cast<std::size_t>(r);
    const int micro_batches = plan.replica_begin[i + 1] - plan.replica_begin[i];
    CHECK(micro_batches >= 1);
    CHECK(micro_batches <= bounds.replica_micro_batches);
    if (options.micro_batches > 0 && !options.reproducible) CHECK(micro_batches == options.micro_batches);
  }
  for (int m = 0; m < plan.micro_batches(); ++m) {
    CHECK(tokens(plan.micro_batch(m)) <= bounds.micro_tokens);
    CHECK(static_cast<std::int64_t>(plan.micro_batch(m).size()) <= bounds.micro_sequences);
    if (options.micro_tokens > 0) CHECK(tokens(plan.micro_batch(m)) <= options.micro_tokens);
  }
}

}  // namespace

TEST_CASE("plans of any layout cover the batch once, in order, within their bounds") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::int32_t longest = 1 + static_cast<std::int32_t>(random() % 300);
    BatchPlanOptions options;
    options.hidden = 1 + static_cast<std::int64_t>(random() % 512);
    options.replicas = 1 << (random() % 4);
    options.global_batch = options.replicas + static_cast<std::int64_t>(random() % 200);
    const int kind = static_cast<int>(random() % 3);  // as the layout needs, chunks, reproducible
    if (kind == 1) options.chunks = options.replicas * (1 + static_cast<int>(random() % 4));
    if (kind == 2) options.chunks = options.replicas << (random() % 3);
    options.reproducible = kind == 2;
    const std::int64_t chunk_sequences = kind == 0 ? 1 : (options.global_batch + options.chunks - 1) / options.chunks;
    switch (random() % 4) {
      case 0:
        options.micro_tokens = chunk_sequences * longest + static_cast<std::int64_t>(random() % 1000);
        break;
      case 1:
        options.micro_sequences = chunk_sequences + static_cast<std::int64_t>(random() % 20);
        break;
      case 2:
        options.micro_batches = 1 + static_cast<std::int64_t>(random() % 5);
        if (kind > 0)
          options.micro_batches = std::min<std::int64_t>(options.micro_batches, options.chunks / options.replicas);
        break;
      default:
        break;
    }
    REQUIRE_NOTHROW(data::check(options, longest));
    // Full batches and partial ones, down to a single sequence.
    const auto sequences =
        random() % 2 ? options.global_batch
                     : 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(options.global_batch));
    const Batch batch = random_batch(random, sequences, longest);
    check_structure(data::plan_batch(batch.samples, batch.lengths, options), batch, options, longest);
  }
}

TEST_CASE("the cut into chunks depends on the batch alone; reproducible replicas hold fixed chunks") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 50; ++round) {
    Batch batch = random_batch(random, 1 + static_cast<std::int64_t>(random() % 64), 200);
    BatchPlanOptions options{.global_batch = 64, .hidden = 128, .reproducible = true, .chunks = 8};
    const BatchPlan one = data::plan_batch(batch.samples, batch.lengths, options);
    for (const int replicas : {1, 2, 4, 8}) {
      options.replicas = replicas;
      options.micro_tokens = replicas == 2 ? 4000 : 0;
      // Another order of arrival: the plan depends on the set.
      std::reverse(batch.samples.begin(), batch.samples.end());
      std::reverse(batch.lengths.begin(), batch.lengths.end());
      const BatchPlan plan = data::plan_batch(batch.samples, batch.lengths, options);
      CHECK(plan.samples == one.samples);
      CHECK(plan.chunk_begin == one.chunk_begin);
      REQUIRE(plan.micro_batches() == 8);
      for (int m = 0; m <= 8; ++m) CHECK(plan.micro_begin[static_cast<std::size_t>(m)] == m);
      for (int r = 0; r <= replicas; ++r) CHECK(plan.replica_begin[static_cast<std::size_t>(r)] == r * 8 / replicas);
    }
    options = {.global_batch = 64, .hidden = 128, .replicas = 2, .chunks = 8, .micro_sequences = 16};
    CHECK(data::plan_batch(batch.samples, batch.lengths, options).chunk_begin == one.chunk_begin);
  }
}

TEST_CASE("without its shortest sequence no part has more than an equal share of the work") {
  // Longest first to the part with the least: what came last, the shortest, came to a part no heavier than the mean.
  // Limits of tokens would disturb that: none does here, as they are those of sequences all of the longest.
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    const Batch batch = random_batch(random, 64, 128);
    const auto check_parts = [](std::span<const PlannedSample> whole, int parts, const auto& part_of,
                                std::int64_t hidden) {
      for (int p = 0; p < parts; ++p) {
        const std::span<const PlannedSample> part = part_of(p);
        if (part.empty()) continue;
        CHECK((work(part, hidden) - work(part.first(1), hidden)) * parts <= work(whole, hidden));
      }
    };
    for (const bool chunked : {false, true}) {
      BatchPlanOptions options{.global_batch = 64, .hidden = 256};
      (chunked ? options.chunks : options.replicas) = 4;
      const BatchPlan plan = data::plan_batch(batch.samples, batch.lengths, options);
      check_parts(
          plan.samples, 4,
          [&](int p) { return chunked ? plan.chunk(p) : plan.chunk(plan.replica_begin[std::size_t(p)]); },
          options.hidden);
    }
    BatchPlanOptions options{.global_batch = 64, .hidden = 256, .replicas = 2, .micro_batches = 6};
    const BatchPlan plan = data::plan_batch(batch.samples, batch.lengths, options);
    for (int r = 0; r < 2; ++r) {
      check_parts(
          plan.replica(r), 6, [&](int p) { return plan.micro_batch(6 * r + p); }, options.hidden);
    }
  }
}

TEST_CASE("sequences that find no room one by one get one more micro-batch") {
  // 6 + 6 + 6 tokens go into two parts of 10 by their sum alone; 5 more in three.
  const std::vector<std::int64_t> samples = {0, 1, 2};
  const BatchPlanOptions options{.global_batch = 8, .hidden = 8, .micro_tokens = 10};
  CHECK(data::plan_batch(samples, std::vector<std::int32_t>{6, 6, 6}, options).micro_batches() == 3);
  CHECK(data::plan_batch(samples, std::vector<std::int32_t>{5, 5, 6}, options).micro_batches() == 2);
  // The part with the least work has no room for the last, another has: longer sequences are more work a token.
  std::vector<std::int32_t> lengths(13, 10);
  lengths[0] = 80;
  std::vector<std::int64_t> numbers(13);
  std::iota(numbers.begin(), numbers.end(), 0);
  const BatchPlan plan = data::plan_batch(numbers, lengths, {.global_batch = 13, .hidden = 1, .micro_tokens = 100});
  REQUIRE(plan.micro_batches() == 2);
  CHECK(tokens(plan.micro_batch(0)) == 100);
}

TEST_CASE("as few micro-batches as the limit allows") {
  const std::vector<std::int64_t> samples = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::int32_t> lengths = {10, 10, 10, 10, 10, 10, 10, 10};
  BatchPlanOptions options{.global_batch = 8, .hidden = 8};
  options.micro_tokens = 80;
  CHECK(data::plan_batch(samples, lengths, options).micro_batches() == 1);
  options.micro_tokens = 79;
  CHECK(data::plan_batch(samples, lengths, options).chunk_begin == std::vector<std::int32_t>{0, 4, 8});
  options.micro_tokens = 10;
  CHECK(data::plan_batch(samples, lengths, options).micro_batches() == 8);
  options.micro_tokens = 0;
  options.micro_sequences = 3;
  CHECK(data::plan_batch(samples, lengths, options).micro_batches() == 3);
  options.replicas = 2;
  CHECK(data::plan_batch(samples, lengths, options).replica_begin == std::vector<std::int32_t>{0, 2, 4});
}

TEST_CASE("a plan's memory is reused") {
  std::mt19937_64 random(4);
  data::BatchPlanner planner({.global_batch = 64, .hidden = 128, .micro_tokens = 500});
  BatchPlan plan;
  const Batch first = random_batch(random, 64, 100);
  planner.plan(first.samples, first.lengths, plan);
  const auto* memory = plan.samples.data();
  const Batch second = random_batch(random, 30, 100);
  planner.plan(second.samples, second.lengths, plan);
  CHECK(plan.samples.data() == memory);
  CHECK(plan.sequences() == 30);
}

TEST_CASE("a batch that cannot be divided is refused with the key and the allowed values") {
  using Catch::Matchers::ContainsSubstring;
  const auto refused = [](const BatchPlanOptions& options, const std::string& words) {
    INFO(words);
    try {
      data::check(options, 128);
      FAIL("accepted");
    } catch (const core::Error& error) {
      CHECK(error.code() == core::ExitCode::input);
      CHECK_THAT(error.what(), ContainsSubstring(words));
    }
  };
  refused({.global_batch = 0}, "batch.global = 0 must");
  refused({.global_batch = 3, .replicas = 4}, "less than the 4 replicas");
  refused({.global_batch = 8, .micro_tokens = 127}, "longest sequence of the data (128 tokens)");
  refused({.global_batch = 8, .micro_tokens = 128, .micro_batches = 2}, "At most one");
  refused({.global_batch = 8, .reproducible = true}, "needs batch.chunks");
  refused({.global_batch = 8, .replicas = 3, .reproducible = true, .chunks = 8}, "powers of two");
  refused({.global_batch = 8, .replicas = 4, .reproducible = true, .chunks = 6}, "not batch.chunks = 6");
  refused({.global_batch = 8, .replicas = 4, .chunks = 2}, "batch.chunks = 2 is less than the 4 replicas");
  refused({.global_batch = 16, .chunks = 8, .micro_tokens = 255}, "raise it to 256");
  refused({.global_batch = 16, .chunks = 8, .micro_sequences = 1}, "less than a chunk (2 sequences)");
  refused({.global_batch = 16, .replicas = 4, .chunks = 8, .micro_batches = 3},
          "more than the chunks of a replica (2)");
  CHECK_NOTHROW(data::check({.global_batch = 16, .chunks = 8, .micro_tokens = 256}, 128));
}
