// Against scikit-learn 1.7: accuracy_score, precision_recall_fscore_support(average="macro", zero_division=0),
// r2_score, mean_absolute_error.
#include "bert_hpc/train/evaluation_metrics.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

using bert_hpc::train::EvaluationSums;

namespace {

void agrees(const EvaluationSums& sums, EvaluationSums::Kind kind,
            const std::vector<std::pair<std::string, double>>& expected) {
  const auto found = sums.metrics(kind);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(found[i].first == expected[i].first);
    CHECK(std::abs(found[i].second - expected[i].second) < 1e-14);  // a few roundings of numbers of order one
  }
}

}  // namespace

TEST_CASE("classification metrics are scikit-learn's, absent classes left out of macro averages") {
  const std::vector<std::int32_t> actual = {0, 0, 0, 1, 1, 2, 2, 2, 2, 0}, guessed = {0, 1, 0, 1, 1, 2, 0, 2, 3, 0};
  EvaluationSums sums(6);  // class 3 is guessed only, 4 and 5 never occur
  for (std::size_t i = 0; i < actual.size(); ++i) sums.add_class(actual[i], guessed[i]);
  sums.add_loss(5.0, 10);
  CHECK(sums.loss() == 0.5);
  agrees(sums, EvaluationSums::Kind::classification,
         {{"accuracy", 0.7}, {"precision", 0.6041666666666666}, {"recall", 0.5625}, {"f1", 0.5541666666666667}});
  CHECK(sums.confusion_matrix()[2 * 6 + 2] == 2);
  CHECK(sums.confusion_matrix()[2 * 6 + 3] == 1);
}

TEST_CASE("regression metrics are scikit-learn's") {
  const std::vector<double> actual = {1.0, 2.5, 4.0, 7.5}, guessed = {1.5, 2.0, 4.5, 6.0};
  EvaluationSums sums(0);
  for (std::size_t i = 0; i < actual.size(); ++i) sums.add_value(actual[i], guessed[i]);
  sums.add_loss(3.0, 4);
  agrees(sums, EvaluationSums::Kind::regression,
         {{"rmse", 0.8660254037844386}, {"mae", 0.75}, {"r2", 0.8709677419354839}});
}

TEST_CASE("R² is NaN where all labels are alike, and keeps its digits where they lie far from 0") {
  const auto r2_of = [](const std::vector<double>& actual, const std::vector<double>& guessed) {
    EvaluationSums sums(0, actual.front());
    for (std::size_t i = 0; i < actual.size(); ++i) sums.add_value(actual[i], guessed[i]);
    sums.add_loss(1.0, static_cast<std::int64_t>(actual.size()));
    return sums.metrics(EvaluationSums::Kind::regression).back().second;
  };
  // 0.1 and 2014 are no sums of few powers of two: their squares, summed, round.
  for (const double label : {0.0, 0.1, 2014.1}) {
    CHECK(std::isnan(r2_of(std::vector<double>(999, label), std::vector<double>(999, label + 0.5))));
  }
  // The case above, moved by 2²⁷: differences are exact, squares of the labels themselves would need 57 bits.
  const double far = 134217728;
  CHECK(std::abs(r2_of({far + 1.0, far + 2.5, far + 4.0, far + 7.5}, {far + 1.5, far + 2.0, far + 4.5, far + 6.0}) -
                 0.8709677419354839) < 1e-14);
}

TEST_CASE("one label that differs from many is a variation") {
  EvaluationSums sums(0, 2014.0);
  for (int i = 0; i < 1000000; ++i) sums.add_value(i == 7 ? 2015.0 : 2014.0, 2014.0);
  sums.add_loss(1.0, 1000000);
  // Errors of 1 against a variation of 1 − 1e-6.
  CHECK(std::abs(sums.metrics(EvaluationSums::Kind::regression).back().second + 1e-6) < 1e-9);
}

TEST_CASE("an evaluation of nothing divides by nothing") {
  const EvaluationSums sums(3);
  CHECK(sums.loss() == 0.0);
  agrees(sums, EvaluationSums::Kind::classification, {{"accuracy", 0}, {"precision", 0}, {"recall", 0}, {"f1", 0}});
}

TEST_CASE("which metrics are better when large") {
  CHECK(bert_hpc::train::larger_is_better("accuracy"));
  CHECK(bert_hpc::train::larger_is_better("r2"));
  for (const char* metric : {"loss", "rmse", "mae", "perplexity"}) CHECK(!bert_hpc::train::larger_is_better(metric));
}
