// Numbers of rankings against figures computed by hand.
#include "bert_hpc/score/ranking.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

using namespace bert_hpc::score;

namespace {

using Levels = std::vector<std::int64_t>;

std::string order_of(std::vector<RankedCandidate> candidates) {
  rank_candidates(candidates);
  std::string ids;
  for (const RankedCandidate& one : candidates) ids += one.id;
  return ids;
}

}  // namespace

TEST_CASE("candidates are ordered by score, equals by descending id, and what is no number comes last") {
  CHECK(order_of({{"a", 1}, {"b", 3}, {"c", 2}}) == "bca");
  CHECK(order_of({{"a", 1}, {"c", 1}, {"b", 1}}) == "cba");
  CHECK(order_of({{"a", 0}, {"b", -0.0f}}) == "ba");
  CHECK(order_of({{"a", NAN}, {"b", -1}, {"c", NAN}, {"d", INFINITY}}) == "dbca");
}

TEST_CASE("numbers of a ranking with relevant candidates at ranks 2 and 4, and one elsewhere") {
  const Levels ranked = {0, 1, 0, 3}, ideal = {3, 2, 1, 0, 0};
  CHECK(average_precision(ranked, 3) == (1.0 / 2 + 2.0 / 4) / 3);
  CHECK(reciprocal_rank(ranked) == 0.5);
  CHECK(reciprocal_rank(ranked, 1) == 0);
  CHECK(recall_at(ranked, 3, 2) == 1.0 / 3);
  CHECK(recall_at(ranked, 3, 10) == 2.0 / 3);
  const double gain = 1 / std::log2(3) + 3 / std::log2(5), best = 3 + 2 / std::log2(3) + 1 / std::log2(4);
  CHECK(normalized_gain(ranked, ideal) == Catch::Approx(gain / best).epsilon(1e-15));
  CHECK(normalized_gain(ranked, ideal, 2) == Catch::Approx(1 / std::log2(3) / (3 + 2 / std::log2(3))).epsilon(1e-15));
}

TEST_CASE("nothing relevant: all numbers are 0") {
  const Levels none = {0, 0};
  CHECK(average_precision(none, 0) == 0);
  CHECK(reciprocal_rank(none) == 0);
  CHECK(normalized_gain(none, none) == 0);
  CHECK(recall_at(none, 0, 10) == 0);
}

TEST_CASE("answers are triggered from the threshold of the best F1 on, whole groups of equal scores at once") {
  const Triggering half = triggering(1, 2, 4);
  CHECK(half.precision == 0.5);
  CHECK(half.recall == 0.25);
  CHECK(half.f1 == 2 * 0.5 * 0.25 / 0.75);
  CHECK(triggering(0, 0, 0).f1 == 0);
  const BestTriggering best = best_triggering({{2, true}, {5, true}, {2, false}, {1, false}}, 2);
  CHECK(best.threshold == 2);
  CHECK(best.numbers.precision == 2.0 / 3);
  CHECK(best.numbers.recall == 1);
  CHECK(best_triggering({{1, false}, {3, false}}, 1).threshold == 3);
}
