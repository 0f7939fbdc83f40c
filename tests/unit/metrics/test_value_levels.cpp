// Metrics of numbers that count as the nearest of some levels, against scikit-learn.
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "bert_hpc/metrics/levels.hpp"
#include "bert_hpc/metrics/registry.hpp"

using namespace bert_hpc;
using Catch::Approx;

namespace {

constexpr float undefined = std::numeric_limits<float>::quiet_NaN();

/// Of two micro-batches, as two ranks would add them.
std::map<std::string, double> evaluated(const std::vector<float>& levels, const std::vector<float>& labels,
                                        const std::vector<float>& predictions) {
  const metrics::EvaluatedSet set{.outputs = 1, .values = labels, .value_levels = levels};
  metrics::Evaluation evaluation({&metrics::value_levels()}, set);
  const std::size_t half = labels.size() / 2;
  for (const auto& [begin, end] : {std::pair(std::size_t{0}, half), std::pair(half, labels.size())}) {
    std::vector<std::int64_t> samples;
    std::vector<std::int32_t> sequences;
    for (std::size_t i = begin; i < end; ++i) {
      samples.push_back(static_cast<std::int64_t>(i));
      sequences.push_back(static_cast<std::int32_t>(i - begin));
    }
    core::MicroBatch batch;
    batch.sequences = batch.targets.rows.count = std::ssize(samples);
    batch.sample = samples.data();
    batch.targets.rows.sequence = sequences.data();
    evaluation.add(0, {.batch = batch, .outputs = std::span(predictions).subspan(begin, end - begin)});
  }
  const auto values = evaluation.values();
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("a number's level is the nearest, of two equally near the lower") {
  const std::vector<float> levels = {1, 1.5f, 2, 4};
  const std::vector<std::pair<double, std::size_t>> cases = {{-7, 0},   {1, 0},   {1.2, 0}, {1.25, 0}, {1.26, 1},
                                                             {1.75, 1}, {2.9, 2}, {3, 2},   {3.1, 3},  {99, 3}};
  for (const auto& [value, level] : cases) {
    INFO(value);
    CHECK(metrics::nearest_level(levels, value) == level);
  }
}

TEST_CASE("accuracy, quadratic kappa and the macro-averaged error are those of scikit-learn") {
  const std::vector<float> levels = {1, 1.5f, 2, 3, 4};
  const std::vector<float> labels = {1, 1, 1.5f, 2, 2, 2, 2, 3, 3, 3};  // no 4
  const std::vector<float> predictions = {1.1f, 1.4f, 1.6f, 2.4f, 1.9f, 3.9f, 1.0f, 2.2f, 3.3f, 2.7f};
  const auto found = evaluated(levels, labels, predictions);
  // scikit-learn 1.9: nearest levels 1 1.5 1.5 2 2 4 1 2 3 3; accuracy_score; cohen_kappa_score of the levels' numbers
  // with labels=range(5), weights="quadratic"; the mean over the labels' levels of mean_absolute_error.
  CHECK(found.at("accuracy") == 0.6);
  CHECK(found.at("qwk") == Approx(0.6323529411764706).epsilon(1e-14));
  CHECK(found.at("macro_mae") == Approx((0.25 + 0 + 0.75 + 1.0 / 3) / 4).epsilon(1e-14));
}

TEST_CASE("a kappa of one level alone is undefined, and so is all of predictions that are no numbers") {
  const auto one = evaluated({1, 2}, {1, 1}, {0.5f, 1.2f});
  CHECK(one.at("accuracy") == 1);
  CHECK(std::isnan(one.at("qwk")));
  CHECK(one.at("macro_mae") == 0);
  for (const auto& [name, value] : evaluated({1, 2}, {1, 2, 2}, {1, undefined, 2})) {
    INFO(name);
    CHECK(std::isnan(value));
  }
}

TEST_CASE("without levels there are no metrics of them") {
  CHECK(evaluated({}, {1, 2}, {1, 2}).empty());
}
