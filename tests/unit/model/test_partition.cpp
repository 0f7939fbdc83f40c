#include "bert_hpc/model/partition.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <random>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/make_plan.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using model::ModelCosts;
using model::ModelRange;
using Counts = std::vector<std::int64_t>;

namespace {

/// Costs of a model of `blocks`, by kind: a last block differs, and its feed-forward's cost includes the head's.
struct Costs {
  double embeddings = 0, attention = 1, feed_forward = 1, last_attention = 1, last = 1;

  ModelCosts of(std::int64_t blocks) const {
    ModelCosts costs{.embeddings = embeddings};
    for (std::int64_t block = 0; block < blocks; ++block) {
      const bool is_last = block + 1 == blocks;
      costs.sublayers.push_back(is_last ? last_attention : attention);
      costs.sublayers.push_back(is_last ? last : feed_forward);
    }
    return costs;
  }
};

Counts counts(const std::vector<ModelRange>& ranges) {
  Counts result;
  for (const ModelRange& range : ranges) result.push_back(range.sublayers());
  return result;
}

std::string message(std::int64_t blocks, int stages, const Counts& balance) {
  try {
    model::partition(stages, balance, Costs().of(blocks));
  } catch (const core::Error& error) {
    CHECK(error.code() == core::ExitCode::input);
    return error.what();
  }
  return "";
}

double bottleneck(const Counts& counts, const std::vector<ModelCosts>& parts) {
  double most = 0;
  std::int64_t first = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    most = std::max(most, parts[p].of(first, first + counts[p]));
    first += counts[p];
  }
  return most;
}

// All ways to cut `sublayers` into as many parts, those with more in front first.
void for_each_cut(std::int64_t sublayers, std::size_t parts, Counts& counts,
                  const std::function<void(const Counts&)>& use) {
  const std::int64_t later = static_cast<std::int64_t>(parts - counts.size()) - 1;
  if (later == 0) {
    counts.push_back(sublayers);
    use(counts);
    counts.pop_back();
    return;
  }
  for (std::int64_t count = sublayers - later; count >= 1; --count) {
    counts.push_back(count);
    for_each_cut(sublayers - count, parts, counts, use);
    counts.pop_back();
  }
}

}  // namespace

TEST_CASE("any number of stages covers the model in order") {
  for (std::int64_t blocks = 1; blocks <= 7; ++blocks) {
    for (int stages = 1; stages <= 2 * blocks; ++stages) {
      for (const Costs& costs : {Costs{}, Costs{.embeddings = 0.3, .last = 0.1}, Costs{.last = 9}}) {
        const auto ranges = model::partition(stages, {}, costs.of(blocks));
        REQUIRE(ranges.size() == static_cast<std::size_t>(stages));
        std::int64_t next = 0;
        for (const ModelRange& range : ranges) {
          CHECK(range.first == next);
          CHECK(range.sublayers() >= 1);
          CHECK(range.embeddings == (&range == &ranges.front()));
          CHECK(range.head == (&range == &ranges.back()));
          next = range.last;
        }
        CHECK(next == 2 * blocks);
      }
    }
  }
}

TEST_CASE("no other cut has a cheaper bottleneck, nor an equal one with more in front") {
  std::mt19937 random(7);
  const auto draw = [&random] { return static_cast<double>(random() % 16) / 4; };  // sums are exact; zeros, too
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t sublayers = 2 * (1 + static_cast<std::int64_t>(random() % 5));
    const std::size_t count = 1 + random() % std::min<std::size_t>(5, static_cast<std::size_t>(sublayers));
    const auto model = [&] { return Costs{draw(), draw(), draw(), draw(), draw()}.of(sublayers / 2); };
    std::vector<ModelCosts> parts(count, model());
    if (trial % 2 == 1) {
      for (ModelCosts& part : parts) part = model();
    }
    double least = 1e300;
    Counts best, begin;
    for_each_cut(sublayers, count, begin, [&](const Counts& cut) {
      const double cost = bottleneck(cut, parts);
      if (cost < least) {
        least = cost;
        best = cut;
      }
    });
    INFO(model::balance_text(best, 1) << " is the best");
    CHECK(model::balanced_counts(parts) == best);
  }
}

TEST_CASE("the slowest stage is as fast as it can be") {
  CHECK(counts(model::partition(4, {}, Costs{}.of(12))) == Counts{6, 6, 6, 6});
  CHECK(counts(model::partition(4, {}, Costs{.last = 5}.of(12))) == Counts{7, 7, 7, 3});
  CHECK(counts(model::partition(2, {}, Costs{.embeddings = 3}.of(12))) == Counts{11, 13});
  // A classifier of 8 blocks: attention 0.4 and feed-forward 0.6 of a block, the last one 0.15 and nearly nothing.
  const Costs classifier{.attention = 0.4, .feed_forward = 0.6, .last_attention = 0.15, .last = 0.01};
  CHECK(counts(model::partition(2, {}, classifier.of(8))) == Counts{7, 9});
}

TEST_CASE("a balance is taken as it is, or refused with one that would do") {
  const Counts balance = {7, 1};
  CHECK(counts(model::partition(2, balance, Costs().of(4))) == balance);
  CHECK_THAT(message(4, 2, {6, 3}), ContainsSubstring("[6, 3]") && ContainsSubstring("[4, 4] would"));
  CHECK_THAT(message(4, 2, {8, 0}), ContainsSubstring("[4, 4] would"));
  CHECK_THAT(message(4, 2, {8}), ContainsSubstring("[4, 4] would"));
  CHECK_THAT(message(4, 9, {}), ContainsSubstring("the model's 8 sublayers"));
}

TEST_CASE("sublayers as inputs and banners write them") {
  const std::vector<double> blocks = {4.5, 0.5, 3};
  CHECK(model::in_sublayers(blocks, 2) == Counts{9, 1, 6});
  CHECK(model::balance_text(Counts{9, 1, 6}, 2) == "[4.5, 0.5, 3]");
  CHECK(model::balance_text({}, 2) == "[]");
  const std::vector<double> thirds = {1.0 / 3, 5.0 / 3};
  CHECK(model::in_sublayers(thirds, 3) == Counts{1, 5});
  model::ModelConfig config;
  config.num_hidden_layers = 8;
  model::ModelPlan plan = model::make_plan(config, layers::sequence_head(), 2);
  CHECK(plan.sublayers_of_block() == 2);
  CHECK(model::blocks_text(plan, 0, 8) == "0-3");
  CHECK(model::blocks_text(plan, 6, 8) == "3");
  CHECK(model::blocks_text(plan, 0, 9) == "0-3, attention of 4");
  CHECK(model::blocks_text(plan, 9, 16) == "feed-forward of 4, 5-7");
  CHECK(model::blocks_text(plan, 9, 10) == "feed-forward of 4");
  CHECK(model::blocks_text(plan, 10, 11) == "attention of 5");
  CHECK(model::blocks_text(plan, 9, 11) == "feed-forward of 4, attention of 5");
  CHECK(model::blocks_text(plan, 9, 9).empty());
  plan.sublayers.resize(12);  // four blocks of three sublayers
  for (std::int64_t i = 0; i < 12; ++i) plan.sublayers[static_cast<std::size_t>(i)].block = i / 3;
  CHECK(plan.sublayers_of_block() == 3);
  CHECK(model::blocks_text(plan, 0, 7) == "0-1, attention of 2");
  CHECK(model::blocks_text(plan, 7, 12) == "feed-forward of 2, attention of 2, 3");
}
