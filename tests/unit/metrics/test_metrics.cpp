// Against scikit-learn 1.7: accuracy_score, precision_recall_fscore_support(average="macro", zero_division=0),
// r2_score, mean_absolute_error; scipy 1.17: pearsonr, spearmanr. numpy: the concordance by its definition.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "bert_hpc/metrics/answers.hpp"
#include "bert_hpc/metrics/class_counts.hpp"
#include "bert_hpc/metrics/correlation.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/metrics/score_bins.hpp"

namespace core = bert_hpc::core;
namespace metrics = bert_hpc::metrics;
using metrics::Evaluation;
using metrics::ranks_of;

namespace {

void agrees(const Evaluation& evaluation, const std::vector<std::pair<std::string, double>>& expected) {
  const auto found = evaluation.values();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(found[i].first == expected[i].first);
    CHECK(std::abs(found[i].second - expected[i].second) < 1e-14);  // a few roundings of numbers of order one
  }
}

Evaluation of_classes(std::int64_t classes) {
  return {{&metrics::class_counts()}, {.outputs = classes}};
}

/// One row for each label.
void add(Evaluation& evaluation, double loss, const std::vector<std::int32_t>& actual,
         const std::vector<std::int32_t>& predicted) {
  core::MicroBatch batch;
  batch.targets.rows.count = static_cast<std::int64_t>(actual.size());
  batch.targets.get<core::ClassTargets>().data = actual.data();
  evaluation.add(loss, {.batch = batch, .predicted = predicted});
}

/// One row with the outputs of one sample.
void add_sample(Evaluation& evaluation, std::int64_t sample, const std::vector<float>& outputs) {
  const std::int32_t sequence = 0;
  core::MicroBatch batch;
  batch.sample = &sample;
  batch.targets.rows.count = 1;
  batch.targets.rows.sequence = &sequence;
  evaluation.add(0.0, {.batch = batch, .outputs = outputs});
}

/// Samples shared out over `ranks`, each seeing its own from the last to the first.
double roc_auc(const std::vector<std::int32_t>& actual, const std::vector<float>& scores, std::size_t ranks = 1) {
  std::vector<Evaluation> parts(ranks, Evaluation({&metrics::binary_ranking()}, {.outputs = 2, .classes = actual}));
  for (std::size_t i = actual.size(); i-- > 0;) {
    add_sample(parts[i * 7 % ranks], static_cast<std::int64_t>(i), {0.0f, scores[i]});
  }
  for (std::size_t r = 1; r < ranks; ++r) {
    for (std::size_t i = 0; i < parts[0].sums().size(); ++i) parts[0].sums()[i] += parts[r].sums()[i];
  }
  return parts[0].values()[0].second;
}

Evaluation of_values(const std::vector<float>& actual) {
  return {{&metrics::value_statistics()}, {.outputs = 1, .values = actual}};
}

/// Predictions in double precision, which a head does not give: put into the sums.
Evaluation evaluated(const std::vector<float>& actual, const std::vector<double>& guessed) {
  Evaluation evaluation = of_values(actual);
  for (std::size_t i = 0; i < guessed.size(); ++i) evaluation.sums()[2 + i] = guessed[i];
  return evaluation;
}

}  // namespace

TEST_CASE("classification metrics are scikit-learn's, absent classes left out of macro averages") {
  const std::vector<std::int32_t> actual = {0, 0, 0, 1, 1, 2, 2, 2, 2, 0}, guessed = {0, 1, 0, 1, 1, 2, 0, 2, 3, 0};
  Evaluation sums = of_classes(6);  // class 3 is guessed only, 4 and 5 never occur
  add(sums, 5.0, actual, guessed);
  CHECK(sums.loss() == 0.5);
  agrees(sums, {{"accuracy", 0.7},
                {"precision", 0.6041666666666666},
                {"recall", 0.5625},
                {"f1", 0.5541666666666667},
                {"weighted_f1", 0.7266666666666666},
                {"micro_f1", 0.7},
                {"mcc", 0.5976143046671968},
                {"balanced_accuracy", 0.75},
                {"kappa", 0.5714285714285714}});
  CHECK(sums.confusion_matrix()[2 * 6 + 2] == 2);
  CHECK(sums.confusion_matrix()[2 * 6 + 3] == 1);
  CHECK(sums.class_counts() ==
        std::vector<std::int64_t>{4, 2, 4, 0, 0, 0, /* predicted */ 4, 3, 2, 1, 0, 0, /* both */ 3, 2, 2, 0, 0, 0});
}

TEST_CASE("figures of single classes are classification_report's with zero_division=0") {
  const std::vector<double> actual = {4, 2, 4, 0, 0}, predicted = {4, 3, 2, 1, 0}, hits = {3, 2, 2, 0, 0};
  const metrics::ClassCounts counts = {actual, predicted, hits};
  CHECK(metrics::class_precision(counts) == std::vector<double>{0.75, 2.0 / 3, 1, 0, 0});
  CHECK(metrics::class_recall(counts) == std::vector<double>{0.75, 1, 0.5, 0, 0});
  CHECK(metrics::class_f1(counts) == std::vector<double>{0.75, 0.8, 2.0 / 3, 0, 0});
}

TEST_CASE("single classes are reported up to a limit above the confusion matrix' one") {
  const std::vector<const metrics::Family*> families = {&metrics::class_counts(), &metrics::binary_ranking()};
  const auto reported = [&](std::int64_t classes) { return metrics::reported_classes(families, {.outputs = classes}); };
  CHECK(reported(metrics::max_confusion_classes + 1) == metrics::max_confusion_classes + 1);
  CHECK(reported(metrics::max_reported_classes) == metrics::max_reported_classes);
  CHECK(reported(metrics::max_reported_classes + 1) == 0);
  CHECK(of_classes(metrics::max_reported_classes + 1).class_counts().empty());
  CHECK(of_classes(1500).class_counts().size() == 3 * 1500);
  CHECK(metrics::reported_classes({&metrics::token_counts()}, {.outputs = 30000}) == 0);
}

TEST_CASE("metrics of two classes are scikit-learn's: f1_score, matthews_corrcoef, cohen_kappa_score, roc_auc_score") {
  const std::vector<std::int32_t> actual = {0, 1, 1, 0, 1, 0, 1, 1}, guessed = {0, 1, 0, 1, 1, 0, 1, 0};
  Evaluation sums = of_classes(2);
  add(sums, 0.0, actual, guessed);
  const auto found = sums.values();
  const std::vector<std::pair<std::string, double>> expected = {{"weighted_f1", 0.6309523809523809},
                                                                {"micro_f1", 0.625},
                                                                {"positive_f1", 2.0 / 3},
                                                                {"mcc", 0.2581988897471611},
                                                                {"balanced_accuracy", 0.6333333333333333},
                                                                {"kappa", 0.25}};
  REQUIRE(found.size() == 4 + expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(found[4 + i].first == expected[i].first);
    CHECK(std::abs(found[4 + i].second - expected[i].second) < 1e-14);
  }
  // Three scores are equal.
  CHECK(std::abs(roc_auc(actual, {0.1f, 0.9f, 0.4f, 0.4f, 0.8f, -1.0f, 0.4f, 0.2f}) - 0.8666666666666667) < 1e-14);
}

TEST_CASE("the area under the ROC curve is the share of ordered pairs, whatever ranks saw them") {
  std::vector<std::int32_t> actual;
  std::vector<float> scores;
  for (int i = 0; i < 500; ++i) {
    actual.push_back(i * 37 % 101 < 30);
    scores.push_back(0.25f * static_cast<float>(i * 53 % 97 % 40) + 2.0f * static_cast<float>(actual.back()));
  }
  double ordered = 0, pairs = 0;
  for (std::size_t p = 0; p < actual.size(); ++p) {
    for (std::size_t n = 0; n < actual.size(); ++n) {
      if (actual[p] != 1 || actual[n] != 0) continue;
      pairs += 1;
      ordered += scores[p] > scores[n] ? 1.0 : scores[p] == scores[n] ? 0.5 : 0.0;
    }
  }
  CHECK(roc_auc(actual, scores) == ordered / pairs);  // quotients of the same multiples of 0.5
  CHECK(roc_auc(actual, scores, 3) == ordered / pairs);
  CHECK(std::isnan(roc_auc({1, 1}, {0.0f, 1.0f})));
  CHECK(std::isnan(roc_auc({1, 0}, {0.0f, std::nanf("")})));
  CHECK(Evaluation({&metrics::binary_ranking()}, {.outputs = 3, .classes = actual}).values().empty());

  // Of very many samples the scores are counted in bins, here of the same few samples. Multiples of 1/4 below 12 have
  // bins of their own.
  actual.resize(metrics::max_kept_scores + 1, 0);
  const metrics::EvaluatedSet many{.outputs = 2, .classes = actual};
  CHECK(metrics::binary_ranking().bytes(many) == 2 * 65536 * 8);
  Evaluation evaluation({&metrics::binary_ranking()}, many);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    add_sample(evaluation, static_cast<std::int64_t>(i), {0.0f, scores[i]});
  }
  CHECK(evaluation.values()[0].second == ordered / pairs);
  add_sample(evaluation, 0, {0.0f, std::nanf("")});
  CHECK(std::isnan(evaluation.values()[0].second));
}

TEST_CASE("metrics of 50,000 classes need no matrix of 50,000 × 50,000") {
  constexpr std::int64_t classes = 50000;
  Evaluation sums = of_classes(classes);
  CHECK(sums.sums().size() < 4 * classes);
  CHECK(metrics::bytes_of({&metrics::class_counts()}, {.outputs = classes}) < std::int64_t{1} << 23);
  add(sums, 2.0, {49999, 7, 7, 7}, {49999, 49999, 7, 7});
  CHECK(sums.matrix_classes() == 0);
  CHECK(sums.confusion_matrix().empty());
  agrees(sums, {{"accuracy", 0.75},
                {"precision", 0.75},
                {"recall", (2.0 / 3 + 1) / 2},
                {"f1", (0.8 + 2.0 / 3) / 2},
                {"weighted_f1", (3 * 0.8 + 2.0 / 3) / 4},
                {"micro_f1", 0.75},
                {"mcc", 1 / std::sqrt(3.0)},
                {"balanced_accuracy", 5.0 / 6},
                {"kappa", 0.5}});
  CHECK(of_classes(metrics::max_confusion_classes).matrix_classes() == metrics::max_confusion_classes);
}

TEST_CASE("the expected calibration error is Guo's equation 3 over 15 bins") {
  Evaluation evaluation({&metrics::calibration()}, {.outputs = 3});
  const auto add_rows = [&](const std::vector<float>& confidences, const std::vector<std::int32_t>& actual) {
    const std::vector<std::int32_t> predicted(actual.size(), 1);
    core::MicroBatch batch;
    batch.targets.rows.count = std::ssize(actual);
    batch.targets.get<core::ClassTargets>().data = actual.data();
    evaluation.add(0.0, {.batch = batch, .predicted = predicted, .confidences = confidences});
  };
  CHECK(evaluation.values()[0] == std::pair<std::string, double>("ece", 0.0));
  add_rows({0.75f, 1.0f}, {1, 1});  // bins (11/15, 12/15] and (14/15, 1]
  add_rows({0.7578125f, 0.375f, 0.40625f, 0.34375f, 0.9375f}, {2, 1, 0, 0, 2});
  // 0.75 and 0.7578125: one of two right; 0.375 and 0.34375 in (5/15, 6/15]: one of two; 0.40625: none of one; 1 and
  // 0.9375: one of two.
  const double expected = (std::abs(1 - 1.5078125) + std::abs(1 - 0.71875) + 0.40625 + std::abs(1 - 1.9375)) / 7;
  CHECK(evaluation.values()[0].second == expected);
  add_rows({std::nanf("")}, {1});
  CHECK(std::isnan(evaluation.values()[0].second));
}

TEST_CASE("a probability at the border of two bins lies in the lower one") {
  // The floats nearest to 3/15 are 0.2 rounded up, which lies above, and the one before it.
  for (const auto& [probability, same_bin] : {std::pair(std::nextafter(0.2f, 0.0f), true), {0.2f, false}}) {
    Evaluation evaluation({&metrics::calibration()}, {.outputs = 9});
    const std::vector<std::int32_t> actual = {0, 1}, predicted = {0, 0};
    const std::vector<float> confidences = {0.15f, probability};
    core::MicroBatch batch;
    batch.targets.rows.count = 2;
    batch.targets.get<core::ClassTargets>().data = actual.data();
    evaluation.add(0.0, {.batch = batch, .predicted = predicted, .confidences = confidences});
    const double first = 0.15f, second = probability;
    const double expected = same_bin ? 1 - (first + second) : (1 - first) + second;
    CHECK(evaluation.values()[0].second == expected / 2);
  }
}

TEST_CASE("regression metrics are scikit-learn's and scipy's") {
  const std::vector<float> actual = {1.0f, 2.5f, 4.0f, 7.5f};
  agrees(evaluated(actual, {1.5, 2.0, 4.5, 6.0}), {{"rmse", 0.8660254037844386},
                                                   {"mae", 0.75},
                                                   {"r2", 0.8709677419354839},
                                                   {"pearson", 0.9595565151125505},
                                                   {"spearman", 1.0},
                                                   {"concordance", 0.918918918918919}});
  // Ties on both sides, and one pair tied in both.
  const std::vector<float> scores = {1.0f, 2.0f, 2.0f, 3.0f, 3.0f, 3.0f, 0.5f, 4.0f};
  agrees(evaluated(scores, {0.5, 2.5, 1.0, 2.5, 2.5, 4.0, 1.0, 3.0}), {{"rmse", 0.7288689868556626},
                                                                       {"mae", 0.6875},
                                                                       {"r2", 0.5511551155115512},
                                                                       {"pearson", 0.795005716636615},
                                                                       {"spearman", 0.829113924050633},
                                                                       {"concordance", 0.7834394904458599}});
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
  for (double& value : guessed) value = static_cast<float>(value);  // as a head gives it
  Evaluation parts[] = {of_values(actual), of_values(actual), of_values(actual)};
  for (std::int64_t i = 999; i >= 0; --i) {
    add_sample(parts[i * 7 % 3], i, {static_cast<float>(guessed[static_cast<std::size_t>(i)])});
  }
  for (std::size_t i = 0; i < parts[0].sums().size(); ++i) {
    parts[0].sums()[i] += parts[1].sums()[i] + parts[2].sums()[i];
  }
  CHECK(parts[0].values() == evaluated(actual, guessed).values());
}

TEST_CASE("metrics of several label columns are computed from known labels and averaged") {
  constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> actual = {1, 5, unknown, 2.5f, unknown, unknown, 4, 5, unknown, 7.5f, 5, unknown};
  const std::vector<std::vector<float>> guessed = {{1.5f, 4, 9}, {2, 9, 9}, {4.5f, 5, 9}, {6, 6, 9}};
  const std::vector<std::string> columns = {"grammar", "alike", "none"};
  Evaluation evaluation({&metrics::value_statistics()}, {.outputs = 3, .columns = columns, .values = actual});
  for (std::int64_t i = 3; i >= 0; --i) add_sample(evaluation, i, guessed[static_cast<std::size_t>(i)]);
  const auto found = evaluation.values();
  const auto grammar = evaluated({1, 2.5f, 4, 7.5f}, {1.5, 2, 4.5, 6}).values(),
             alike = evaluated({5, 5, 5}, {4, 5, 6}).values();
  REQUIRE(found.size() == 4 * grammar.size());
  for (std::size_t m = 0; m < grammar.size(); ++m) {
    const auto& [name, first] = grammar[m];
    const double second = alike[m].second;
    const auto at = [&](std::size_t i) { return found[(i + 1) * grammar.size() + m]; };
    CHECK(at(0) == std::pair(name + "_grammar", first));
    CHECK(at(1).first == name + "_alike");
    CHECK((at(1).second == second || (std::isnan(at(1).second) && std::isnan(second))));
    CHECK(at(2).first == name + "_none");
    CHECK(std::isnan(at(2).second));
    CHECK(found[m].first == name);
    CHECK(found[m].second == (std::isnan(second) ? first : (first + second) / 2));
  }
  CHECK(std::isnan(alike[2].second));  // R² of labels that are alike
  CHECK_FALSE(evaluation.one_answer());
  add_sample(evaluation, 3, {std::nanf(""), 6, 9});
  for (std::size_t m = 0; m < grammar.size(); ++m) CHECK(std::isnan(evaluation.values()[m].second));
}

TEST_CASE("R² and correlations are NaN where all labels are alike, correlations where all predictions are") {
  // 0.1 and 2014 are no sums of few powers of two: their sum over 999 samples rounds.
  for (const float label : {0.0f, 0.1f, 2014.1f}) {
    std::vector<double> guessed(999, 0.3);
    const std::vector<float> alike(999, label);
    for (const double last : {0.3, 1.7}) {
      guessed.back() = last;
      const auto found = evaluated(alike, guessed).values();
      for (std::size_t i : {2, 3, 4}) CHECK(std::isnan(found[i].second));
    }
  }
  const std::vector<float> differing = {1.0f, 2.0f, 3.0f};
  const auto constant = evaluated(differing, {0.1, 0.1, 0.1}).values();
  CHECK(std::isfinite(constant[2].second));
  CHECK(std::isnan(constant[3].second));
  CHECK(std::isnan(constant[4].second));
  const auto lost = evaluated(differing, {0.1, std::nan(""), 0.2}).values();
  for (const auto& [name, value] : lost) CHECK(std::isnan(value));
}

TEST_CASE("R² and Pearson keep their digits where labels lie far from 0") {
  // The first case, moved by 2²⁰: only the mean rounds, by no more than 2⁻³³ in a
  // difference of order one; squares of such a rounding vanish against those of the differences.
  const float far = 1048576;
  const std::vector<float> actual = {far + 1.0f, far + 2.5f, far + 4.0f, far + 7.5f};
  const auto found = evaluated(actual, {far + 1.5, far + 2.0, far + 4.5, far + 6.0}).values();
  CHECK(std::abs(found[2].second - 0.8709677419354839) < 1e-14);
  CHECK(std::abs(found[3].second - 0.9595565151125505) < 1e-14);
}

TEST_CASE("one label that differs from many is a variation") {
  std::vector<float> actual(1000000, 2014.0f);
  actual[7] = 2015.0f;
  // Errors of 1 against a variation of 1 − 1e-6.
  const auto found = evaluated(actual, std::vector<double>(1000000, 2014.0)).values();
  CHECK(std::abs(found[2].second + 1e-6) < 1e-9);
}

TEST_CASE("nearly one value for all samples is found where their labels differ") {
  const auto answer = [](const std::vector<float>& labels, const std::vector<double>& guessed) {
    return evaluated(labels, guessed).one_answer();
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
    Evaluation sums = of_classes(3);
    add(sums, 0.0, actual, guessed);
    return sums.one_answer();
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
  CHECK_FALSE(Evaluation({&metrics::token_counts()}, {}).one_answer());
}

TEST_CASE("no answer to any question is found where some have an answer") {
  const auto answer = [](double has, double no, double answered) {
    Evaluation questions({&metrics::answers()}, {});
    metrics::AnswerSums sums;
    sums.has = has;
    sums.no = no;
    sums.answered = answered;
    sums.to(questions.sums_of(metrics::answers()));
    return questions.one_answer();
  };
  const auto found = answer(3, 7, 0);
  REQUIRE(found);
  CHECK(found->samples == 10);
  CHECK(found->answerable == 3);
  CHECK_FALSE(answer(3, 7, 1));
  CHECK_FALSE(answer(0, 7, 0));  // right
  CHECK_FALSE(answer(0, 0, 0));
}

TEST_CASE("an evaluation of nothing divides by nothing") {
  const Evaluation sums = of_classes(3);
  CHECK(sums.loss() == 0.0);
  agrees(sums, {{"accuracy", 0},
                {"precision", 0},
                {"recall", 0},
                {"f1", 0},
                {"weighted_f1", 0},
                {"micro_f1", 0},
                {"mcc", 0},
                {"balanced_accuracy", 0},
                {"kappa", 0}});
}

TEST_CASE("which metrics are better when large") {
  CHECK(metrics::larger_is_better("accuracy"));
  for (const char* metric : {"r2", "pearson", "spearman"}) CHECK(metrics::larger_is_better(metric));
  for (const char* metric : {"loss", "rmse", "mae", "perplexity", "ece"}) CHECK(!metrics::larger_is_better(metric));
}

TEST_CASE("masked tokens: the share guessed right, and the perplexity of the mean loss") {
  Evaluation sums({&metrics::token_counts()}, {.outputs = 30000});
  add(sums, 6.0, {5, 29999, 7, 7}, {5, 29999, 7, 8});
  add(sums, 2.0, {}, {});
  agrees(sums, {{"accuracy", 0.75}, {"perplexity", std::exp(2.0)}});
  CHECK(sums.matrix_classes() == 0);
}

TEST_CASE("labels of metrics are their names but for averages over classes") {
  CHECK(metrics::find_metric("f1")->label == "macro f1");
  CHECK(metrics::find_metric("f1", std::set<std::string>{"exact", "f1"})->label == "macro f1");
  std::set<std::string> names;
  for (const metrics::Metric& metric : metrics::answers().metrics) names.insert(metric.name);
  CHECK(metrics::find_metric("f1", names)->label == "f1");
  CHECK(metrics::find_metric("of_another_version") == nullptr);
}

TEST_CASE("embeddings of texts have correlations with their scores, or ranks if there are none") {
  const std::vector<float> scores = {1, 1, 5, 5, 3, 3, 2, 2};  // of both texts of a pair
  Evaluation scored({&metrics::text_similarity(), &metrics::batch_ranks()}, {.outputs = 1, .values = scores});
  const metrics::Sums cosines = scored.sums_of(metrics::text_similarity());
  REQUIRE(cosines.size() == 4);
  const std::vector<double> found = {0.1, 0.8, 0.9, 0.2};
  std::copy(found.begin(), found.end(), cosines.begin());
  // scipy.stats.pearsonr and spearmanr of ([1, 5, 3, 2], found)
  agrees(scored, {{"pearson", 0.8127554543473877}, {"spearman", 0.8}});
  const std::vector<float> of_three = {1, 1, 1, 5, 5, 5, 3, 3, 3, 2, 2, 2};
  Evaluation margins({&metrics::text_similarity(), &metrics::text_triplets()},
                     {.outputs = 1, .values = of_three, .row_texts = 3});
  REQUIRE(margins.sums_of(metrics::text_similarity()).size() == 4);
  std::copy(found.begin(), found.end(), margins.sums_of(metrics::text_similarity()).begin());
  margins.sums_of(metrics::text_triplets())[0] = 4;
  margins.sums_of(metrics::text_triplets())[1] = 3;
  agrees(margins, {{"pearson", 0.8127554543473877}, {"spearman", 0.8}, {"triplet_accuracy", 0.75}});
  Evaluation unscored({&metrics::text_similarity(), &metrics::batch_ranks(), &metrics::text_triplets()},
                      {.outputs = 1});
  const metrics::Sums sums = unscored.sums_of(metrics::batch_ranks());
  const std::vector<double> of_anchors = {4, 1, 2.5, 2, 3, 3.5};
  REQUIRE(sums.size() == of_anchors.size());
  std::copy(of_anchors.begin(), of_anchors.end(), sums.begin());
  agrees(unscored,
         {{"accuracy", 0.25}, {"mrr", 0.625}, {"mrr_at_10", 0.5}, {"ndcg_at_10", 0.75}, {"recall_at_10", 0.875}});
}
