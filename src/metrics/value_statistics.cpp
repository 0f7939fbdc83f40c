// Predicted numbers. Correlations need the samples side by side: each prediction has a sum of its own, 0 on the ranks
// that did not make it, so that adding the sums brings them together, and the figures depend on the samples' order in
// the data alone.
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

void add(const EvaluatedSet&, const Results& results, Sums sums) {
  const core::MicroBatch& batch = results.batch;
  for (std::size_t row = 0; row < results.outputs.size(); ++row) {
    sums[static_cast<std::size_t>(batch.sample[batch.targets.rows.sequence[row]])] = results.outputs[row];
  }
}

/// rmse, mae, r2 (NaN where all labels are alike), pearson and spearman (NaN where all labels or all predictions are),
/// Lin's concordance (doi:10.2307/2532051; NaN where all of both are alike).
std::vector<double> values(const EvaluatedSet& set, const LossSum&, ConstSums predicted) {
  const std::vector<double> actual(set.values.begin(), set.values.end());
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

/// Is nearly one value predicted (the predictions' deviation is less than 2% of the labels')?
std::optional<OneAnswer> one_answer(const EvaluatedSet& set, ConstSums predicted) {
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
      .bytes = bytes,
      .one_answer = one_answer};
  return family;
}

}  // namespace bert_hpc::metrics
