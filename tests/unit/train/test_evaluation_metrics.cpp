// Against scikit-learn 1.7: accuracy_score, precision_recall_fscore_support(average="macro", zero_division=0),
// r2_score, mean_absolute_error; scipy 1.17: pearsonr, spearmanr.
#include "bert_hpc/train/evaluation_metrics.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

using bert_hpc::train::EvaluationSums;
using bert_hpc::train::ranks_of;

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

EvaluationSums evaluated(const std::vector<float>& actual, const std::vector<double>& guessed) {
  EvaluationSums sums(actual);
  for (std::size_t i = 0; i < guessed.size(); ++i) sums.add_value(static_cast<std::int64_t>(i), guessed[i]);
  return sums;
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

TEST_CASE("metrics of 50,000 classes need no matrix of 50,000 × 50,000") {
  constexpr std::int64_t classes = 50000;
  EvaluationSums sums(classes);
  CHECK(sums.sums().size() < 4 * classes);
  CHECK(EvaluationSums::bytes_of_classes(classes) < std::int64_t{1} << 23);
  sums.add_class(49999, 49999);
  sums.add_class(7, 49999);
  sums.add_class(7, 7);
  sums.add_class(7, 7);
  sums.add_loss(2.0, 4);
  CHECK_FALSE(sums.has_confusion_matrix());
  CHECK(sums.confusion_matrix().empty());
  agrees(sums, EvaluationSums::Kind::classification,
         {{"accuracy", 0.75}, {"precision", 0.75}, {"recall", (2.0 / 3 + 1) / 2}, {"f1", (0.8 + 2.0 / 3) / 2}});
  CHECK(EvaluationSums(EvaluationSums::most_confusion_classes).has_confusion_matrix());
}

TEST_CASE("regression metrics are scikit-learn's and scipy's") {
  const std::vector<float> actual = {1.0f, 2.5f, 4.0f, 7.5f};
  agrees(evaluated(actual, {1.5, 2.0, 4.5, 6.0}), EvaluationSums::Kind::regression,
         {{"rmse", 0.8660254037844386},
          {"mae", 0.75},
          {"r2", 0.8709677419354839},
          {"pearson", 0.9595565151125505},
          {"spearman", 1.0}});
  // Ties on both sides, and one pair tied in both.
  const std::vector<float> scores = {1.0f, 2.0f, 2.0f, 3.0f, 3.0f, 3.0f, 0.5f, 4.0f};
  agrees(evaluated(scores, {0.5, 2.5, 1.0, 2.5, 2.5, 4.0, 1.0, 3.0}), EvaluationSums::Kind::regression,
         {{"rmse", 0.7288689868556626},
          {"mae", 0.6875},
          {"r2", 0.5511551155115512},
          {"pearson", 0.795005716636615},
          {"spearman", 0.829113924050633}});
}

TEST_CASE("equal values share the mean of their ranks") {
  CHECK(ranks_of(std::vector<double>{3, -1, 3, 0, 3, 0}) == std::vector<double>{5, 1, 5, 2.5, 5, 2.5});
  CHECK(ranks_of({}).empty());
}

TEST_CASE("predictions of several ranks, in any order, give the same bits as one's") {
  std::vector<float> actual;
  std::vector<double> guessed;
  for (int i = 0; i < 1000; ++i) {
    actual.push_back(0.1f * static_cast<float>(i * 37 % 101));
    guessed.push_back(0.3 * (i * 53 % 97));
  }
  EvaluationSums parts[] = {EvaluationSums(actual), EvaluationSums(actual), EvaluationSums(actual)};
  for (std::int64_t i = 999; i >= 0; --i) parts[i * 7 % 3].add_value(i, guessed[static_cast<std::size_t>(i)]);
  for (std::size_t i = 0; i < parts[0].sums().size(); ++i) {
    parts[0].sums()[i] += parts[1].sums()[i] + parts[2].sums()[i];
  }
  CHECK(parts[0].metrics(EvaluationSums::Kind::regression) ==
        evaluated(actual, guessed).metrics(EvaluationSums::Kind::regression));
}

TEST_CASE("R² and correlations are NaN where all labels are alike, correlations where all predictions are") {
  // 0.1 and 2014 are no sums of few powers of two: their sum over 999 samples rounds.
  for (const float label : {0.0f, 0.1f, 2014.1f}) {
    std::vector<double> guessed(999, 0.3);
    const std::vector<float> alike(999, label);
    for (const double last : {0.3, 1.7}) {
      guessed.back() = last;
      const auto found = evaluated(alike, guessed).metrics(EvaluationSums::Kind::regression);
      for (std::size_t i : {2, 3, 4}) CHECK(std::isnan(found[i].second));
    }
  }
  const std::vector<float> differing = {1.0f, 2.0f, 3.0f};
  const auto constant = evaluated(differing, {0.1, 0.1, 0.1}).metrics(EvaluationSums::Kind::regression);
  CHECK(std::isfinite(constant[2].second));
  CHECK(std::isnan(constant[3].second));
  CHECK(std::isnan(constant[4].second));
  const auto lost = evaluated(differing, {0.1, std::nan(""), 0.2}).metrics(EvaluationSums::Kind::regression);
  for (const auto& [name, value] : lost) CHECK(std::isnan(value));
}

TEST_CASE("R² and Pearson keep their digits where labels lie far from 0") {
  // The first case, moved by 2²⁰: only the mean rounds, by no more than 2⁻³³ in a
  // difference of order one; squares of such a rounding vanish against those of the differences.
  const float far = 1048576;
  const std::vector<float> actual = {far + 1.0f, far + 2.5f, far + 4.0f, far + 7.5f};
  const auto found =
      evaluated(actual, {far + 1.5, far + 2.0, far + 4.5, far + 6.0}).metrics(EvaluationSums::Kind::regression);
  CHECK(std::abs(found[2].second - 0.8709677419354839) < 1e-14);
  CHECK(std::abs(found[3].second - 0.9595565151125505) < 1e-14);
}

TEST_CASE("one label that differs from many is a variation") {
  std::vector<float> actual(1000000, 2014.0f);
  actual[7] = 2015.0f;
  // Errors of 1 against a variation of 1 − 1e-6.
  const auto found = evaluated(actual, std::vector<double>(1000000, 2014.0)).metrics(EvaluationSums::Kind::regression);
  CHECK(std::abs(found[2].second + 1e-6) < 1e-9);
}

TEST_CASE("nearly one value for all samples is found where their labels differ") {
  const auto answer = [](const std::vector<float>& labels, const std::vector<double>& guessed) {
    return evaluated(labels, guessed).one_answer(EvaluationSums::Kind::regression);
  };
  const std::vector<float> labels = {5.0f, 6.0f, 7.0f, 8.0f};  // their deviation is 1.118
  const auto flat = answer(labels, {6.23, 6.24, 6.23, 6.24});
  REQUIRE(flat);
  CHECK(flat->samples == 4);
  CHECK(std::abs(flat->value - 6.235) < 1e-12);
  CHECK(std::abs(flat->spread - 0.005) < 1e-12);
  CHECK(flat->label_mean == 6.5);
  CHECK(std::abs(flat->label_spread - std::sqrt(1.25)) < 1e-12);
  CHECK(flat->label_classes == 0);
  CHECK(answer(labels, {6.235, 6.235, 6.235, 6.235}));
  CHECK_FALSE(answer(labels, {6.1, 6.2, 6.3, 6.2}));
  CHECK_FALSE(answer(labels, {6.2, std::nan(""), 6.2, 6.2}));
  CHECK_FALSE(answer({6.0f, 6.0f, 6.0f, 6.0f}, {6.0, 6.0, 6.0, 6.0}));  // right
  CHECK_FALSE(answer({6.0f}, {1.0}));
  CHECK_FALSE(answer({}, {}));
}

TEST_CASE("one class for all samples is found where several occur") {
  const auto answer = [](const std::vector<std::int32_t>& actual, const std::vector<std::int32_t>& guessed) {
    EvaluationSums sums(3);
    for (std::size_t i = 0; i < actual.size(); ++i) sums.add_class(actual[i], guessed[i]);
    return sums.one_answer(EvaluationSums::Kind::classification);
  };
  const auto found = answer({0, 2, 2, 0}, {2, 2, 2, 2});
  REQUIRE(found);
  CHECK(found->samples == 4);
  CHECK(found->value == 2);
  CHECK(found->label_classes == 2);
  CHECK_FALSE(answer({0, 2, 2, 0}, {2, 2, 2, 1}));
  CHECK_FALSE(answer({1, 1, 1}, {1, 1, 1}));  // right
  CHECK_FALSE(answer({1, 1, 1}, {2, 2, 2}));  // the figures say what there is to say
  CHECK_FALSE(answer({}, {}));
  CHECK_FALSE(EvaluationSums(0).one_answer(EvaluationSums::Kind::masked_lm));
}

TEST_CASE("an evaluation of nothing divides by nothing") {
  const EvaluationSums sums(3);
  CHECK(sums.loss() == 0.0);
  agrees(sums, EvaluationSums::Kind::classification, {{"accuracy", 0}, {"precision", 0}, {"recall", 0}, {"f1", 0}});
}

TEST_CASE("which metrics are better when large") {
  CHECK(bert_hpc::train::larger_is_better("accuracy"));
  for (const char* metric : {"r2", "pearson", "spearman"}) CHECK(bert_hpc::train::larger_is_better(metric));
  for (const char* metric : {"loss", "rmse", "mae", "perplexity"}) CHECK(!bert_hpc::train::larger_is_better(metric));
}
