// Predicted numbers as levels: both the label and the prediction count as the nearest level. Sums: the confusion matrix
// (levels, levels), actual by row, predicted by column; all NaN if a prediction is. Without levels there is nothing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "bert_hpc/metrics/levels.hpp"
#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

std::int64_t size(const EvaluatedSet& set) {
  const std::int64_t levels = std::ssize(set.value_levels);
  return set.values.empty() ? 0 : levels * levels;
}

void add(const EvaluatedSet& set, const Results& results, Sums sums) {
  if (sums.empty()) return;
  const core::MicroBatch& batch = results.batch;
  const std::size_t levels = set.value_levels.size();
  for (std::size_t row = 0; row < results.outputs.size(); ++row) {
    const double predicted = results.outputs[row];
    if (std::isnan(predicted)) std::fill(sums.begin(), sums.end(), undefined);
    const auto sample = static_cast<std::size_t>(batch.sample[batch.targets.rows.sequence[row]]);
    const std::size_t actual = nearest_level(set.value_levels, set.values[sample]);
    sums[actual * levels + nearest_level(set.value_levels, predicted)] += 1;
  }
}

/// 1 − Σ (i − j)² · observed / Σ (i − j)² · expected, as scikit-learn's cohen_kappa_score(labels=levels,
/// weights="quadratic"); NaN if all labels and predictions are one level.
double quadratic_kappa(ConstSums counts, std::span<const double> actual, std::span<const double> predicted,
                       double total) {
  double observed = 0, expected = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    for (std::size_t j = 0; j < predicted.size(); ++j) {
      const double distance = static_cast<double>(i) - static_cast<double>(j), weight = distance * distance;
      observed += weight * counts[i * actual.size() + j];
      expected += weight * actual[i] * predicted[j] / total;
    }
  }
  return expected > 0 ? 1.0 - observed / expected : undefined;
}

/// accuracy; qwk; macro_mae: the mean over the levels that labels have of the mean distance of level and prediction in
/// the labels' unit (Baccianella, Esuli, Sebastiani 2009, doi:10.1109/ISDA.2009.230).
std::vector<double> values(const EvaluatedSet& set, const LossSum&, ConstSums counts) {
  if (counts.empty()) return {};
  const std::size_t levels = set.value_levels.size();
  std::vector<double> actual(levels), predicted(levels);
  double right = 0, means = 0, there = 0;
  for (std::size_t i = 0; i < levels; ++i) {
    double distances = 0;
    for (std::size_t j = 0; j < levels; ++j) {
      const double count = counts[i * levels + j];
      actual[i] += count;
      predicted[j] += count;
      distances += count * std::abs(static_cast<double>(set.value_levels[i]) - set.value_levels[j]);
    }
    right += counts[i * levels + i];
    if (actual[i] == 0) continue;  // NaN is not
    means += distances / actual[i];
    there += 1;
  }
  const double total = std::accumulate(actual.begin(), actual.end(), 0.0);
  if (!(total > 0)) return {undefined, undefined, undefined};
  return {right / total, quadratic_kappa(counts, actual, predicted, total), means / there};
}

std::int64_t bytes(const EvaluatedSet& set) {
  return (size(set) + 2 * std::ssize(set.value_levels)) * std::int64_t{sizeof(double)};
}

}  // namespace

std::size_t nearest_level(std::span<const float> levels, double value) {
  const auto above = std::find_if(levels.begin(), levels.end(), [&](float level) { return level >= value; });
  if (above == levels.begin() || above == levels.end()) {
    return above == levels.begin() ? 0 : levels.size() - 1;
  }
  const auto index = static_cast<std::size_t>(above - levels.begin());
  return value - levels[index - 1] <= levels[index] - value ? index - 1 : index;
}

const Family& value_levels() {
  static const Family family = {.metrics = {{"accuracy", ""}, {"qwk", "QWK"}, {"macro_mae", "macro mae", false}},
                                .reads_outputs = true,
                                .size = size,
                                .add = add,
                                .values = values,
                                .bytes = bytes};
  return family;
}

}  // namespace bert_hpc::metrics
