// Metrics of label sets against scikit-learn (tests/golden/label_sets.py prints the numbers) and by hand.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "bert_hpc/metrics/best_threshold.hpp"
#include "bert_hpc/metrics/ranking.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/metrics/score_bins.hpp"

namespace core = bert_hpc::core;
namespace metrics = bert_hpc::metrics;
using metrics::Evaluation;

namespace {

struct Samples {
  std::int64_t names = 0;
  std::vector<std::uint8_t> sets;  // (samples, names)
  std::vector<float> outputs;      // (samples, names)
};

/// The labels and outputs of tests/golden/label_sets.py.
Samples golden_samples() {
  Samples all{.names = 5, .sets = {}, .outputs = {}};
  for (int i = 0; i < 1000; ++i) {
    const int has = i * 37 % 101 < 30;
    all.sets.push_back(static_cast<std::uint8_t>(has));
    all.outputs.push_back(0.25f * static_cast<float>(i * 53 % 97 % 40 - 25) + 2.0f * static_cast<float>(has));
  }
  return all;
}

/// The metrics with the samples shared out over `ranks`, each seeing its own from the last to the first.
std::vector<double> metrics_of(const Samples& all, std::size_t ranks = 1, double least_output = 0) {
  const Evaluation empty({&metrics::label_sets()},
                         {.outputs = all.names, .sets = all.sets, .least_output = least_output});
  std::vector<Evaluation> parts(ranks, empty);
  const auto names = static_cast<std::size_t>(all.names);
  for (std::size_t s = all.sets.size() / names; s-- > 0;) {
    const auto sample = static_cast<std::int64_t>(s);
    const std::int32_t sequence = 0;
    core::MicroBatch batch;
    batch.sample = &sample;
    batch.targets.rows.count = 1;
    batch.targets.rows.sequence = &sequence;
    parts[s * 7 % ranks].add(0.0, {.batch = batch, .outputs = std::span(all.outputs).subspan(s * names, names)});
  }
  for (std::size_t r = 1; r < ranks; ++r) {
    for (std::size_t i = 0; i < parts[0].sums().size(); ++i) parts[0].sums()[i] += parts[r].sums()[i];
  }
  std::vector<double> values;
  for (const auto& [name, value] : parts[0].values()) values.push_back(value);
  return values;
}

}  // namespace

TEST_CASE("metrics of label sets are scikit-learn's, whatever ranks saw them") {
  const std::vector<double> found = metrics_of(golden_samples());
  const std::vector<double> expected = {0.4613050075872534, 0.4611240614213695, 0.04, 0.7129812477461233,
                                        0.6705833333333332};
  REQUIRE(found.size() == expected.size() + 2);
  // Sums of integers, and quotients of a few roundings; the last is a sum of 200 numbers of at most 1.
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(found[i] - expected[i]) < 2e-14);
  CHECK(metrics_of(golden_samples(), 3) == found);
}

TEST_CASE("names that no sample has count as 0 in macro f1, and not in the area under the curve") {
  // Name 0 of both samples, name 1 of none, name 2 of the second.
  const Samples all{.names = 3, .sets = {1, 0, 0, 1, 0, 1}, .outputs = {1, -1, -1, 1, -1, 1}};
  const std::vector<double> found = metrics_of(all);
  CHECK(found[0] == 1.0);
  CHECK(found[1] == 2.0 / 3);
  CHECK(found[2] == 1.0);
  CHECK(found[3] == 1.0);
  const std::vector<double> alike = metrics_of({.names = 1, .sets = {1, 1}, .outputs = {0, -1}});
  CHECK(alike[0] == 2.0 / 3);  // an output of 0 is in the set
  CHECK(alike[2] == 0.5);
  CHECK(std::isnan(alike[3]));
  const std::vector<double> empty = metrics_of({.names = 1, .sets = {0}, .outputs = {-1}});
  CHECK(empty[0] == 0.0);
  CHECK(empty[2] == 1.0);
}

TEST_CASE("the best threshold is as good as it says, and none is better") {
  const Samples all = golden_samples();
  const std::vector<double> usual = metrics_of(all);
  const double f1 = usual[5], threshold = usual[6];
  const auto micro_f1 = [&](double probability) {
    return metrics_of(all, 1, std::log(probability / (1 - probability)))[0];
  };
  CHECK(micro_f1(threshold) == f1);
  CHECK(f1 > usual[0]);
  for (int i = 1; i < 1000; ++i) CHECK(micro_f1(i / 1000.0) <= f1);
  const auto best = [](const std::vector<double>& outputs, const std::vector<std::uint8_t>& is_there) {
    return metrics::best_threshold(outputs, is_there);
  };
  CHECK(best({0, 0, -1}, {1, 0, 0}).f1 == 2.0 / 3);  // equal outputs are decided alike
  CHECK(best({-1, 1}, {1, 1}).probability == 1 / (1 + std::exp(1.0)) / 2);
  CHECK(std::abs(best({2, -2}, {1, 0}).probability - 0.5) < 1e-15);  // roundings of two sigmoids
  CHECK(std::isnan(best({2, -2}, {0, 0}).f1));
  CHECK(std::isnan(best({2, std::nan("")}, {1, 0}).probability));
}

TEST_CASE("the ranking of a sample's names, with equal scores") {
  const auto precision = [](const std::vector<float>& scores, const std::vector<std::uint8_t>& own) {
    return metrics::label_ranking_precision(scores, own);
  };
  CHECK(precision({3, 2, 1}, {1, 0, 1}) == (1.0 + 2.0 / 3) / 2);
  CHECK(precision({2, 2, 1}, {1, 0, 0}) == 0.5);
  CHECK(precision({2, 2, 2, 1}, {1, 0, 1, 1}) == (2 * 2.0 / 3 + 3.0 / 4) / 3);
  CHECK(precision({1, 2}, {0, 0}) == 1.0);
  CHECK(precision({1, 2}, {1, 1}) == 1.0);
  CHECK(std::isnan(precision({1, std::nanf("")}, {1, 0})));
}

TEST_CASE("a threshold decides which names are predicted, not their ranking") {
  Samples all = golden_samples();
  const std::vector<double> usual = metrics_of(all), higher = metrics_of(all, 1, 1.0);
  for (float& output : all.outputs) output -= 1;  // an output of 1 is where the threshold was
  const std::vector<double> moved = metrics_of(all);
  for (const std::size_t i : {0, 1, 2}) {
    CHECK(higher[i] == moved[i]);
    CHECK(higher[i] != usual[i]);
  }
  for (const std::size_t i : {3, 4}) CHECK(higher[i] == usual[i]);
}

TEST_CASE("the counts of single names are those of the sets") {
  const std::vector<std::uint8_t> sets = {1, 0, 0, 1, 0, 1};
  const std::vector<float> outputs = {1, -1, 1, -1, -1, 1};
  Evaluation evaluation({&metrics::label_sets()}, {.outputs = 3, .sets = sets});
  const std::int64_t samples[] = {0, 1};
  const std::int32_t sequences[] = {0, 1};
  core::MicroBatch batch;
  batch.sample = samples;
  batch.targets.rows.count = 2;
  batch.targets.rows.sequence = sequences;
  evaluation.add(0.0, {.batch = batch, .outputs = outputs});
  CHECK(evaluation.class_counts() == std::vector<std::int64_t>{2, 0, 1, /* predicted */ 1, 0, 2, /* both */ 1, 0, 1});
}

namespace {

/// The golden samples, seen `copies` times.
Samples copied(const Samples& all, std::size_t copies) {
  Samples many{.names = all.names, .sets = {}, .outputs = {}};
  for (std::size_t i = 0; i < copies; ++i) {
    many.sets.insert(many.sets.end(), all.sets.begin(), all.sets.end());
    many.outputs.insert(many.outputs.end(), all.outputs.begin(), all.outputs.end());
  }
  return many;
}

}  // namespace

TEST_CASE("memory for figures of many outputs does not grow with the samples") {
  // 1000 outputs are 200 samples of 5 names. Copies of all samples change no figure.
  constexpr std::size_t copies = metrics::max_kept_scores / 1000 + 1;
  const Samples few = golden_samples(), many = copied(few, copies);
  const auto bytes = [](const Samples& all) {
    return metrics::label_sets().bytes({.outputs = all.names, .sets = all.sets});
  };
  CHECK(bytes(many) == bytes(copied(few, copies + 1000)));
  CHECK(bytes(many) < 8 << 20);
  const std::vector<double> expected = metrics_of(few), found = metrics_of(many);
  // The golden outputs are multiples of 1/4 between -7 and 6: no two of them share one of 65,536 bins.
  for (std::size_t i = 0; i < 6; ++i) CHECK(std::abs(found[i] - expected[i]) < 2e-14);
  // The threshold is where a bin begins, not between two outputs: it decides alike.
  CHECK(metrics_of(few, 1, std::log(found[6] / (1 - found[6])))[0] == expected[5]);
  CHECK(metrics_of(many, 3) == found);
}

TEST_CASE("bins order all logits") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::size_t bins : {std::size_t{1024}, std::size_t{65536}}) {
    CHECK(metrics::bin_of(-infinity, bins) == 0);
    CHECK(metrics::bin_of(infinity, bins) == bins - 1);
    CHECK(metrics::bin_of(3.4e38, bins) == bins - 1);
    CHECK(metrics::bin_of(0, bins) == bins / 2);
    CHECK(metrics::bin_begin(0, bins) == -infinity);
    CHECK(metrics::bin_begin(bins / 2, bins) == 0);
    for (std::size_t bin = 1; bin < bins; ++bin) {
      const double begin = metrics::bin_begin(bin, bins), end = metrics::bin_begin(bin + 1, bins);
      if (metrics::bin_of((begin + std::min(end, 1e9)) / 2, bins) != bin) FAIL("bin " << bin << " of " << bins);
    }
  }
  CHECK(metrics::score_bins(1) == 65536);
  CHECK(metrics::score_bins(8192) == 1024);
  CHECK(metrics::score_bins(8193) == 0);
}

TEST_CASE("figures of bins are those of scores that are the number of their bin") {
  const std::vector<double> absent = {0, 3, 0, 2, 1}, present = {1, 0, 0, 4, 2};
  std::vector<double> scores;
  std::vector<std::uint8_t> positive;
  for (std::size_t bin = 0; bin < absent.size(); ++bin) {
    for (const bool is_present : {false, true}) {
      const auto count = static_cast<std::size_t>((is_present ? present : absent)[bin]);
      scores.insert(scores.end(), count, static_cast<double>(bin));
      positive.insert(positive.end(), count, is_present);
    }
  }
  CHECK(metrics::roc_auc_of_bins(absent, present) == metrics::roc_auc(scores, positive));
  CHECK(metrics::best_threshold_of_bins(absent, present).f1 == metrics::best_threshold(scores, positive).f1);
  // Where everything is best predicted, or nothing but what is sure: probabilities that decide so, and no 0 or 1.
  for (const std::vector<double>& all : {std::vector<double>{1, 0, 0}, std::vector<double>{0, 0, 1}}) {
    const double threshold = metrics::best_threshold_of_bins(std::vector<double>(3, 0.0), all).probability;
    CHECK((threshold > 0 && threshold < 1));
  }
  const double undefined = std::nan("");
  CHECK(std::isnan(metrics::roc_auc_of_bins(std::vector<double>{0, 0}, std::vector<double>{0, 1})));
  CHECK(std::isnan(metrics::roc_auc_of_bins(std::vector<double>{undefined, 1}, std::vector<double>{0, 1})));
  CHECK(std::isnan(metrics::best_threshold_of_bins(std::vector<double>{1, 1}, std::vector<double>{0, 0}).f1));
  CHECK(std::isnan(metrics::best_threshold_of_bins(std::vector<double>{undefined, 1}, std::vector<double>{0, 1}).f1));
}

TEST_CASE("a name of very many samples is NaN where one of its outputs is") {
  Samples many = copied(golden_samples(), metrics::max_kept_scores / 1000 + 1);
  many.outputs[7] = std::nanf("");
  const std::vector<double> found = metrics_of(many);
  for (const std::size_t i : {3, 4, 5, 6}) CHECK(std::isnan(found[i]));
}
