// Predicted numbers, of one label column or of several, whose metrics are means over columns. Correlations need the
// samples side by side: each prediction has a sum of its own, 0 on the ranks that did not make it, so that adding the
// sums brings them together, and the figures depend on the samples' order in the data alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bert_hpc/metrics/correlation.hpp"
#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : 0.0;
}

/// Standard deviation from `mean`; of the population.
double spread_of(std::span<const double> values, double mean) {
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(ratio(squares, static_cast<double>(values.size())));
}

std::int64_t size(const EvaluatedSet& set) {
  return static_cast<std::int64_t>(set.values.size());
}

std::size_t columns_of(const EvaluatedSet& set) {
  return static_cast<std::size_t>(std::max<std::int64_t>(1, set.outputs));
}

void add(const EvaluatedSet& set, const Results& results, Sums sums) {
  const core::MicroBatch& batch = results.batch;
  const std::size_t columns = columns_of(set);
  for (std::size_t i = 0; i < results.outputs.size(); ++i) {
    const auto sample = static_cast<std::size_t>(batch.sample[batch.targets.rows.sequence[i / columns]]);
    sums[sample * columns + i % columns] = results.outputs[i];
  }
}

/// rmse, mae, r2 (NaN if all labels are alike), pearson and spearman (NaN if all labels or all predictions are),
/// Lin's concordance (doi:10.2307/2532051; NaN if all of both are alike).
std::vector<double> values_of(std::span<const double> actual, std::span<const double> predicted) {
  const double mean = mean_of(actual);
  double squares = 0, errors = 0, absolute = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = predicted[i] - actual[i];
    squares += (actual[i] - mean) * (actual[i] - mean);
    errors += error * error;
    absolute += std::abs(error);
  }
  const auto count = static_cast<double>(actual.size());
  const double linear = pearson(actual, predicted);  // NaN, too, where a value is, which has no rank
  return {std::sqrt(ratio(errors, count)),
          ratio(absolute, count),
          squares > 0 ? 1.0 - errors / squares : undefined,
          linear,
          std::isnan(linear) ? undefined : pearson(ranks_of(actual), ranks_of(predicted)),
          concordance(actual, predicted)};
}

/// values_of() each column's known labels; NaN if a column has none.
std::vector<double> column_values(const EvaluatedSet& set, ConstSums predicted) {
  const std::size_t columns = columns_of(set);
  if (columns == 1) return {};
  std::vector<double> all;
  for (std::size_t c = 0; c < columns; ++c) {
    std::vector<double> actual, own;
    for (std::size_t i = c; i < set.values.size(); i += columns) {
      if (std::isnan(set.values[i])) continue;
      actual.push_back(set.values[i]);
      own.push_back(predicted[i]);
    }
    const std::vector<double> of_column = values_of(actual, own);
    if (actual.empty()) all.insert(all.end(), of_column.size(), undefined);
    if (!actual.empty()) all.insert(all.end(), of_column.begin(), of_column.end());
  }
  return all;
}

/// The mean of `values` over the columns in which it is defined; NaN if it is in none, or if a prediction is NaN.
double mean_over_columns(std::span<const double> values, bool broken) {
  double sum = 0, defined = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++defined;
  }
  return defined > 0 && !broken ? sum / defined : undefined;
}

std::vector<double> values(const EvaluatedSet& set, const LossSum&, ConstSums predicted) {
  const std::size_t columns = columns_of(set);
  if (columns == 1) return values_of(std::vector<double>(set.values.begin(), set.values.end()), predicted);
  const std::vector<double> all = column_values(set, predicted);
  const bool broken = std::any_of(predicted.begin(), predicted.end(), [](double value) { return std::isnan(value); });
  std::vector<double> means;
  for (std::size_t metric = 0; metric < all.size() / columns; ++metric) {
    std::vector<double> own;
    for (std::size_t c = 0; c < columns; ++c) own.push_back(all[c * all.size() / columns + metric]);
    means.push_back(mean_over_columns(own, broken));
  }
  return means;
}

/// Whether nearly one value is predicted: the predictions' deviation is less than 2% of the labels'. False for several
/// columns.
std::optional<OneAnswer> one_answer(const EvaluatedSet& set, ConstSums predicted) {
  if (columns_of(set) > 1) return std::nullopt;
  constexpr double nearly = 0.02;  // one that has learned anything is far above, one that has not far below
  const std::vector<double> actual(set.values.begin(), set.values.end());
  OneAnswer answer{
      .samples = static_cast<std::int64_t>(actual.size()), .value = mean_of(predicted), .label_mean = mean_of(actual)};
  answer.spread = spread_of(predicted, answer.value);
  answer.label_spread = spread_of(actual, answer.label_mean);
  return answer.spread < nearly * answer.label_spread ? std::optional(answer) : std::nullopt;
}

/// A prediction, a label, two ranks and their order.
std::int64_t bytes(const EvaluatedSet& set) {
  return size(set) * 5 * std::int64_t{sizeof(double)};
}

}  // namespace

const Family& value_statistics() {
  static const Family family = {
      .metrics =
          {{"rmse", "", false}, {"mae", "", false}, {"r2", ""}, {"pearson", ""}, {"spearman", ""}, {"concordance", ""}},
      .reads_outputs = true,
      .size = size,
      .add = add,
      .values = values,
      .column_values = column_values,
      .bytes = bytes,
      .one_answer = one_answer};
  return family;
}

}  // namespace bert_hpc::metrics
