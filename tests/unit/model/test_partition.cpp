#include "bert_hpc/model/partition.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <random>
#include <string>

#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using model::ModelCosts;
using model::ModelRange;
using Counts = std::vector<std::int64_t>;

namespace {

model::ModelConfig layers_of(std::int64_t count) {
  model::ModelConfig config;
  config.num_hidden_layers = count;
  return config;
}

Counts counts(const std::vector<ModelRange>& ranges) {
  Counts result;
  for (const ModelRange& range : ranges) result.push_back(range.sublayers());
  return result;
}

std::string message(const model::ModelConfig& config, int stages, const Counts& balance) {
  try {
    model::partition(config, stages, balance, {});
  } catch (const core::Error& error) {
    CHECK(error.code() == core::ExitCode::input);
    return error.what();
  }
  return "";
}

// Sublayer by sublayer, as the definition says.
double cost_of(const ModelCosts& costs, std::int64_t first, std::int64_t last, std::int64_t sublayers) {
  double sum = first == 0 ? costs.embeddings : 0;
  for (std::int64_t sublayer = first; sublayer < last; ++sublayer) {
    const bool of_last_block = sublayer + 2 >= sublayers;
    sum += sublayer % 2 == 0 ? (of_last_block ? costs.last_attention : costs.attention)
                             : (of_last_block ? costs.last : costs.feed_forward);
  }
  return sum;
}

double dearest(const Counts& counts, const std::vector<ModelCosts>& parts, std::int64_t sublayers) {
  double most = 0;
  std::int64_t first = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    most = std::max(most, cost_of(parts[p], first, first + counts[p], sublayers));
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

TEST_CASE("stages cover the model in order, whatever their number") {
  for (std::int64_t blocks = 1; blocks <= 7; ++blocks) {
    for (int stages = 1; stages <= 2 * blocks; ++stages) {
      for (const ModelCosts& costs :
           {ModelCosts{}, ModelCosts{.embeddings = 0.3, .last = 0.1}, ModelCosts{.last = 9}}) {
        const auto ranges = model::partition(layers_of(blocks), stages, {}, costs);
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

TEST_CASE("no other cut has a cheaper dearest part, nor an equal one with more in front") {
  std::mt19937 random(7);
  const auto draw = [&random] { return static_cast<double>(random() % 16) / 4; };  // sums are exact; zeros, too
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t sublayers = 2 * (1 + static_cast<std::int64_t>(random() % 5));
    const std::size_t count = 1 + random() % std::min<std::size_t>(5, static_cast<std::size_t>(sublayers));
    std::vector<ModelCosts> parts(count, {draw(), draw(), draw(), draw(), draw()});
    if (trial % 2 == 1) {
      for (ModelCosts& part : parts) part = {draw(), draw(), draw(), draw(), draw()};
    }
    double least = 1e300;
    Counts best, begin;
    for_each_cut(sublayers, count, begin, [&](const Counts& cut) {
      const double cost = dearest(cut, parts, sublayers);
      if (cost < least) {
        least = cost;
        best = cut;
      }
    });
    INFO(model::balance_text(best) << " is the best");
    CHECK(model::balanced_counts(sublayers, parts) == best);
  }
}

TEST_CASE("the slowest stage is as fast as it can be") {
  CHECK(counts(model::partition(layers_of(12), 4, {}, {})) == Counts{6, 6, 6, 6});
  CHECK(counts(model::partition(layers_of(12), 4, {}, {.last = 5})) == Counts{7, 7, 7, 3});
  CHECK(counts(model::partition(layers_of(12), 2, {}, {.embeddings = 3})) == Counts{11, 13});
  // A classifier of 8 blocks: attention 0.4 and feed-forward 0.6 of a block, the last one 0.15 and nearly nothing.
  const ModelCosts classifier{.attention = 0.4, .feed_forward = 0.6, .last_attention = 0.15, .last = 0.01};
  CHECK(counts(model::partition(layers_of(8), 2, {}, classifier)) == Counts{7, 9});
}

TEST_CASE("a balance is taken as it is, or refused with one that would do") {
  const Counts balance = {7, 1};
  CHECK(counts(model::partition(layers_of(4), 2, balance, {})) == balance);
  CHECK_THAT(message(layers_of(4), 2, {6, 3}), ContainsSubstring("[3, 1.5]") && ContainsSubstring("[2, 2] would"));
  CHECK_THAT(message(layers_of(4), 2, {8, 0}), ContainsSubstring("[2, 2] would"));
  CHECK_THAT(message(layers_of(4), 2, {8}), ContainsSubstring("[2, 2] would"));
  CHECK_THAT(message(layers_of(4), 9, {}), ContainsSubstring("at most 8"));
}

TEST_CASE("sublayers as inputs and banners write them") {
  const std::vector<double> blocks = {4.5, 0.5, 3};
  CHECK(model::in_sublayers(blocks) == Counts{9, 1, 6});
  CHECK(model::balance_text(Counts{9, 1, 6}) == "[4.5, 0.5, 3]");
  CHECK(model::balance_text({}) == "[]");
  CHECK(model::blocks_text(0, 8) == "0-3");
  CHECK(model::blocks_text(6, 8) == "3");
  CHECK(model::blocks_text(0, 9) == "0-3, attention of 4");
  CHECK(model::blocks_text(9, 16) == "feed-forward of 4, 5-7");
  CHECK(model::blocks_text(9, 10) == "feed-forward of 4");
  CHECK(model::blocks_text(10, 11) == "attention of 5");
  CHECK(model::blocks_text(9, 11) == "feed-forward of 4, attention of 5");
  CHECK(model::blocks_text(9, 9).empty());
}
