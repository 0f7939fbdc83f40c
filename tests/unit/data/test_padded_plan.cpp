// Plans with padding: sequences in the order drawn, parts of equal numbers, limits that count padding.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <random>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/batch_plan.hpp"

using namespace bert_hpc;
using core::BatchPlan;
using core::PlannedSample;
using data::BatchPlanOptions;
using data::Padding;

namespace {

const std::vector<std::int64_t> samples = {7, 3, 9, 1, 4, 8};
const std::vector<std::int32_t> lengths = {5, 2, 9, 4, 4, 1};

std::vector<std::vector<std::int64_t>> micro_batches_of(const BatchPlan& plan) {
  std::vector<std::vector<std::int64_t>> all;
  for (int m = 0; m < plan.micro_batches(); ++m) {
    all.emplace_back();
    for (const PlannedSample& sample : plan.micro_batch(m)) all.back().push_back(sample.index);
  }
  return all;
}

std::vector<std::int32_t> rows_of(const BatchPlan& plan) {
  std::vector<std::int32_t> rows;
  for (const PlannedSample& sample : plan.samples) rows.push_back(sample.rows());
  return rows;
}

std::int64_t rows_of(std::span<const PlannedSample> some) {
  std::int64_t rows = 0;
  for (const PlannedSample& sample : some) rows += sample.rows();
  return rows;
}

using Indices = std::vector<std::vector<std::int64_t>>;
using Rows = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("with padding, micro-batches take sequences as they were drawn and extend them to the longest") {
  BatchPlanOptions options{.global_batch = 6, .hidden = 8, .micro_sequences = 2, .padding = {.kind = Padding::longest}};
  const BatchPlan plan = data::plan_batch(samples, lengths, options);
  CHECK(micro_batches_of(plan) == Indices{{7, 3}, {9, 1}, {4, 8}});
  CHECK(rows_of(plan) == Rows{5, 5, 9, 9, 4, 4});
  CHECK(plan.samples[1] == PlannedSample{.index = 3, .length = 2, .padding = 3});

  options.padding = {.kind = Padding::max, .length = 12};
  const BatchPlan most = data::plan_batch(samples, lengths, options);
  CHECK(micro_batches_of(most) == micro_batches_of(plan));
  CHECK(rows_of(most) == Rows(6, 12));

  options.padding = {.kind = Padding::longest, .sorts = true};
  const BatchPlan sorted = data::plan_batch(samples, lengths, options);
  CHECK(micro_batches_of(sorted) == Indices{{8, 3}, {1, 4}, {7, 9}});
  CHECK(rows_of(sorted) == Rows{2, 2, 4, 4, 9, 9});
}

TEST_CASE("with padding, a limit of tokens counts computed tokens") {
  BatchPlanOptions options{.global_batch = 6, .hidden = 8, .micro_tokens = 18, .padding = {.kind = Padding::longest}};
  // 7 and 3 take 2·5, with 9 all would take 3·9 > 18; 9 and 1 take 2·9; 4 and 8 take 2·4.
  CHECK(micro_batches_of(data::plan_batch(samples, lengths, options)) == Indices{{7, 3}, {9, 1}, {4, 8}});
  options.micro_tokens = 27;
  CHECK(micro_batches_of(data::plan_batch(samples, lengths, options)) == Indices{{7, 3, 9}, {1, 4, 8}});
  options.padding = {.kind = Padding::max, .length = 9};
  options.micro_tokens = 35;
  CHECK(micro_batches_of(data::plan_batch(samples, lengths, options)) == Indices{{7, 3, 9}, {1, 4, 8}});
  options.micro_tokens = 36;
  CHECK(micro_batches_of(data::plan_batch(samples, lengths, options)) == Indices{{7, 3, 9, 1}, {4, 8}});
  options.padding.length = 40;
  CHECK_THROWS_AS(data::check(options, options.padding.rows(9)), core::Error);
}

TEST_CASE("with padding, chunks and replicas are runs of equal numbers, whatever the layout") {
  BatchPlanOptions options{
      .global_batch = 6, .hidden = 8, .reproducible = true, .chunks = 4, .padding = {.kind = Padding::longest}};
  const BatchPlan one = data::plan_batch(samples, lengths, options);
  CHECK(one.chunk_begin == std::vector<std::int32_t>{0, 1, 3, 4, 6});
  CHECK(rows_of(one) == Rows{5, 9, 9, 4, 4, 4});
  options.replicas = 2;
  const BatchPlan two = data::plan_batch(samples, lengths, options);
  CHECK(two.samples == one.samples);
  CHECK(two.chunk_begin == one.chunk_begin);
  CHECK(two.replica_begin == std::vector<std::int32_t>{0, 2, 4});
}

TEST_CASE("plans with padding cover the batch once, within their bounds") {
  std::mt19937_64 random(1);
  const auto up_to = [&](int most) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(most)); };
  for (int round = 0; round < 300; ++round) {
    const auto longest = static_cast<std::int32_t>(1 + up_to(300));
    BatchPlanOptions options;
    options.hidden = 16;
    options.replicas = 1 << up_to(4);
    options.global_batch = options.replicas + up_to(200);
    options.padding.kind = round % 2 == 0 ? Padding::longest : Padding::max;
    options.padding.length = static_cast<std::int32_t>(longest + up_to(50));
    options.padding.sorts = up_to(2) == 0;
    const std::int64_t most = data::most_rows(options.padding, longest, nullptr);
    const bool chunks = up_to(2) == 0;
    if (chunks) options.chunks = options.replicas * static_cast<int>(1 + up_to(4));
    options.reproducible = chunks && up_to(2) == 0;
    if (options.reproducible) options.chunks = static_cast<int>(std::bit_floor(static_cast<unsigned>(options.chunks)));
    const std::int64_t in_chunk = chunks ? (options.global_batch + options.chunks - 1) / options.chunks : 1;
    switch (up_to(4)) {
      case 0:
        options.micro_tokens = in_chunk * most + up_to(1000);
        break;
      case 1:
        options.micro_sequences = in_chunk + up_to(20);
        break;
      case 2:
        options.micro_batches = chunks ? 1 : 1 + up_to(5);
        break;
      default:
        break;
    }
    REQUIRE_NOTHROW(data::check(options, most));
    const std::int64_t count = up_to(2) == 0 ? options.global_batch : 1 + up_to(static_cast<int>(options.global_batch));
    std::vector<std::int64_t> drawn(static_cast<std::size_t>(count));
    std::iota(drawn.begin(), drawn.end(), 1000);
    std::shuffle(drawn.begin(), drawn.end(), random);
    std::vector<std::int32_t> own;
    for (std::int64_t i = 0; i < count; ++i) own.push_back(static_cast<std::int32_t>(1 + up_to(longest)));
    const BatchPlan plan = data::plan_batch(drawn, own, options);
    std::vector<std::int64_t> planned;
    for (const PlannedSample& sample : plan.samples) planned.push_back(sample.index);
    if (options.padding.sorts) {
      CHECK(std::is_sorted(plan.samples.begin(), plan.samples.end(),
                           [](const auto& a, const auto& b) { return a.length < b.length; }));
      std::sort(planned.begin(), planned.end());
      std::sort(drawn.begin(), drawn.end());
    }
    CHECK(planned == drawn);
    CHECK(plan.chunk_begin.back() == count);
    CHECK(plan.micro_begin.back() == plan.chunks());
    CHECK(plan.replica_begin.back() == plan.micro_batches());
    const data::BatchPlanBounds bounds = data::bounds(options, most);
    for (int r = 0; r < plan.replicas(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      const int micro_batches = plan.replica_begin[i + 1] - plan.replica_begin[i];
      CHECK(micro_batches >= 1);
      CHECK(micro_batches <= bounds.replica_micro_batches);
      CHECK(rows_of(plan.replica(r)) <= bounds.replica_tokens);
      CHECK(std::ssize(plan.replica(r)) <= bounds.replica_sequences);
    }
    for (int m = 0; m < plan.micro_batches(); ++m) {
      const auto micro_batch = plan.micro_batch(m);
      std::int32_t most_real = 0;
      for (const PlannedSample& sample : micro_batch) most_real = std::max(most_real, sample.length);
      for (const PlannedSample& sample : micro_batch) CHECK(sample.rows() == options.padding.rows(most_real));
      CHECK(rows_of(micro_batch) <= bounds.micro_tokens);
      CHECK(std::ssize(micro_batch) <= bounds.micro_sequences);
      if (options.micro_tokens > 0 && !options.reproducible) CHECK(rows_of(micro_batch) <= options.micro_tokens);
      if (options.micro_sequences > 0) CHECK(std::ssize(micro_batch) <= options.micro_sequences);
    }
  }
}

TEST_CASE("with padding, the candidates of a query stay together and count with their padding") {
  const std::vector<std::int64_t> groups = {0, 2, 5, 6};
  const std::vector<std::int32_t> levels = {1, 0, 0, 1, 0, 1}, tokens = {3, 8, 2, 2, 2, 5};
  data::SampleUnits units(groups, levels, tokens);
  BatchPlanOptions options{.global_batch = 3, .hidden = 8, .micro_tokens = 24, .padding = {.kind = Padding::longest}};
  CHECK(data::most_rows(options.padding, 8, &units) == 24);  // 3 candidates of 8 tokens at most
  CHECK(units.most_tokens() == 11);
  const std::vector<std::int64_t> drawn = {1, 2, 0};
  const std::vector<std::int32_t> own = {6, 5, 11};
  // 3·2, with the second query 4·5; the third alone: 2·8.
  const BatchPlan plan = data::plan_batch(drawn, own, options, &units);
  CHECK(micro_batches_of(plan) == Indices{{2, 3, 4, 5}, {0, 1}});
  CHECK(rows_of(plan) == Rows{5, 5, 5, 5, 8, 8});
}
