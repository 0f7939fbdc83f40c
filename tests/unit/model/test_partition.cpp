#include "bert_hpc/model/partition.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using model::BlockRange;

namespace {

model::BertConfig layers_of(std::int64_t count) {
  model::BertConfig config;
  config.num_hidden_layers = count;
  return config;
}

std::vector<std::int64_t> counts(const std::vector<BlockRange>& ranges) {
  std::vector<std::int64_t> result;
  for (const BlockRange& range : ranges) result.push_back(range.blocks());
  return result;
}

std::string message(const model::BertConfig& config, int stages, const std::vector<std::int64_t>& balance) {
  try {
    model::partition(config, stages, balance, {});
  } catch (const core::Error& error) {
    CHECK(error.code() == core::ExitCode::input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("stages cover the model in order, whatever their number") {
  for (std::int64_t blocks = 1; blocks <= 13; ++blocks) {
    for (int stages = 1; stages <= blocks; ++stages) {
      for (const model::StageCosts costs :
           {model::StageCosts{}, model::StageCosts{0.3, -0.7}, model::StageCosts{0, 9}}) {
        const auto ranges = model::partition(layers_of(blocks), stages, {}, costs);
        REQUIRE(ranges.size() == static_cast<std::size_t>(stages));
        std::int64_t next = 0;
        for (const BlockRange& range : ranges) {
          CHECK(range.first == next);
          CHECK(range.blocks() >= 1);
          CHECK(range.embeddings == (&range == &ranges.front()));
          CHECK(range.head == (&range == &ranges.back()));
          next = range.last;
        }
        CHECK(next == blocks);
      }
    }
  }
}

TEST_CASE("the slowest stage is as fast as it can be") {
  CHECK(counts(model::partition(layers_of(12), 4, {}, {})) == std::vector<std::int64_t>{3, 3, 3, 3});
  CHECK(counts(model::partition(layers_of(12), 4, {}, {.head = 2})) == std::vector<std::int64_t>{4, 4, 3, 1});
  CHECK(counts(model::partition(layers_of(12), 2, {}, {.embeddings = 2})) == std::vector<std::int64_t>{5, 7});
  CHECK(counts(model::partition(layers_of(4), 2, {}, {.head = -0.9})) == std::vector<std::int64_t>{2, 2});
}

TEST_CASE("a cheap last block and a dear vocabulary are seen in the costs") {
  const model::BertConfig base = layers_of(12);
  const auto classification = model::stage_costs(base, model::HeadKind::classification, 128);
  const auto masked = model::stage_costs(base, model::HeadKind::masked_lm, 128);
  CHECK(classification.head < -0.7);  // of the last block only keys and values remain: 2 of 12 hidden² products
  CHECK(classification.head > -0.9);
  CHECK(masked.head > classification.head);
  CHECK(classification.embeddings < 0.05);
}

TEST_CASE("a balance is taken as it is, or refused with one that would do") {
  const std::vector<std::int64_t> balance = {3, 1};
  CHECK(counts(model::partition(layers_of(4), 2, balance, {})) == balance);
  CHECK_THAT(message(layers_of(4), 2, {3, 2}), ContainsSubstring("[3, 2]") && ContainsSubstring("[2, 2] would"));
  CHECK_THAT(message(layers_of(4), 2, {4, 0}), ContainsSubstring("[2, 2] would"));
  CHECK_THAT(message(layers_of(4), 2, {4}), ContainsSubstring("[2, 2] would"));
  CHECK_THAT(message(layers_of(4), 5, {}), ContainsSubstring("at most 4"));
}
