#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/prep/mining.hpp"

using namespace bert_hpc;
using Chosen = std::vector<std::int64_t>;

TEST_CASE("mined negatives are the nearest documents that do not belong to the anchor") {
  // Sequence, score, hash of the text.
  const std::vector<prep::FoundText> found{{7, 0.9f, 1}, {3, 0.8f, 2}, {9, 0.7f, 3},
                                           {4, 0.6f, 3}, {5, 0.5f, 4}, {6, -0.2f, 5}};
  const std::unordered_set<std::uint64_t> positives{1};
  prep::MiningRules rules{.negatives = 3};
  CHECK(prep::mined(rules, found, 0.75, positives) == Chosen{3, 9, 5});  // 7 is a positive, 4 the text of 9
  rules.skip = 1;
  CHECK(prep::mined(rules, found, 0.75, positives) == Chosen{9, 5, 6});
  rules = {.negatives = 3, .margin = 0.1};
  CHECK(prep::mined(rules, found, 0.75, positives) == Chosen{4, 5, 6});  // at most 0.65
  rules = {.negatives = 3, .relative_margin = 0.3};
  CHECK(prep::mined(rules, found, 0.75, positives) == Chosen{5, 6});  // at most 0.525
  CHECK(prep::mined(rules, found, -0.1, positives) == Chosen{6});     // at most −0.13
  rules = {.negatives = 1, .max_score = 0.79};
  CHECK(prep::mined(rules, found, 0.75, positives) == Chosen{9});
  CHECK(prep::mined(rules, {}, 0.75, positives).empty());
}
