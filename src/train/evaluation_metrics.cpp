#include "bert_hpc/train/evaluation_metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace bert_hpc::train {
namespace {

constexpr std::size_t loss_at = 0, targets_at = 1, correct_at = 2, rest_at = 3;
// Of classification, in the rest: three counts per class, then the confusion matrix.
constexpr std::int64_t actual_at = 0, predicted_at = 1, hits_at = 2;
constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : 0.0;
}

/// Seen from the first value, so that it is this value itself, to the bit, where all are alike.
double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value - values.front();
  return values.empty() ? 0.0 : values.front() + sum / static_cast<double>(values.size());
}

/// Standard deviation from `mean`; of the population.
double spread_of(std::span<const double> values, double mean) {
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(ratio(squares, static_cast<double>(values.size())));
}

}  // namespace

double pearson(std::span<const double> x, std::span<const double> y) {
  const double x_mean = mean_of(x), y_mean = mean_of(y);
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double from_x = x[i] - x_mean, from_y = y[i] - y_mean;
    xx += from_x * from_x;
    yy += from_y * from_y;
    xy += from_x * from_y;
  }
  if (xx == 0 || yy == 0) return undefined;
  return std::clamp(xy / (std::sqrt(xx) * std::sqrt(yy)), -1.0, 1.0);
}

std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    // The mean of first + 1, …, end.
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = 0.5 * static_cast<double>(first + 1 + end);
  }
  return ranks;
}

EvaluationSums::EvaluationSums(std::int64_t classes, std::span<const float> labels)
    : classes_(classes),
      labels_(labels),
      sums_(rest_at + static_cast<std::size_t>(class_sums(classes)) + labels.size(), 0.0) {}

std::int64_t EvaluationSums::class_sums(std::int64_t classes) {
  return 3 * classes + (classes <= most_confusion_classes ? classes * classes : 0);
}

void EvaluationSums::add_loss(double sum, std::int64_t targets) {
  sums_[loss_at] += sum;
  sums_[targets_at] += static_cast<double>(targets);
}

void EvaluationSums::add_class(std::int32_t actual, std::int32_t predicted) {
  of_class(actual_at, actual) += 1;
  of_class(predicted_at, predicted) += 1;
  if (actual == predicted) of_class(hits_at, actual) += 1;
  if (has_confusion_matrix()) sums_[matrix_at() + static_cast<std::size_t>(actual * classes_ + predicted)] += 1;
}

void EvaluationSums::add_value(std::int64_t sample, double predicted) {
  sums_[rest_at + static_cast<std::size_t>(sample)] = predicted;
}

double& EvaluationSums::of_class(std::int64_t count, std::int64_t label) {
  return sums_[rest_at + static_cast<std::size_t>(count * classes_ + label)];
}
double EvaluationSums::of_class(std::int64_t count, std::int64_t label) const {
  return sums_[rest_at + static_cast<std::size_t>(count * classes_ + label)];
}
std::size_t EvaluationSums::matrix_at() const {
  return rest_at + static_cast<std::size_t>(3 * classes_);
}

double EvaluationSums::loss() const {
  return ratio(sums_[loss_at], sums_[targets_at]);
}

std::vector<std::int64_t> EvaluationSums::confusion_matrix() const {
  std::vector<std::int64_t> matrix;
  if (!has_confusion_matrix()) return matrix;
  matrix.reserve(sums_.size() - matrix_at());
  for (std::size_t i = matrix_at(); i < sums_.size(); ++i) matrix.push_back(static_cast<std::int64_t>(sums_[i]));
  return matrix;
}

std::vector<std::pair<std::string, double>> EvaluationSums::regression_metrics() const {
  const std::vector<double> actual(labels_.begin(), labels_.end());
  const std::span<const double> predicted = std::span(sums_).subspan(rest_at);
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
  return {{"rmse", std::sqrt(ratio(errors, count))},
          {"mae", ratio(absolute, count)},
          {"r2", squares > 0 ? 1.0 - errors / squares : undefined},
          {"pearson", linear},
          {"spearman", std::isnan(linear) ? undefined : pearson(ranks_of(actual), ranks_of(predicted))}};
}

std::vector<std::pair<std::string, double>> EvaluationSums::metrics(Kind kind) const {
  const double count = sums_[targets_at];
  if (kind == Kind::masked_lm) return {{"accuracy", ratio(sums_[correct_at], count)}, {"perplexity", std::exp(loss())}};
  if (kind == Kind::regression) return regression_metrics();
  // Macro averages run over the classes that occur, as actual or as predicted.
  double correct = 0, precision = 0, recall = 0, f1 = 0, present = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    const double actual = of_class(actual_at, c), predicted = of_class(predicted_at, c), hits = of_class(hits_at, c);
    correct += hits;
    if (actual + predicted == 0) continue;
    ++present;
    precision += ratio(hits, predicted);
    recall += ratio(hits, actual);
    f1 += ratio(2 * hits, actual + predicted);
  }
  return {{"accuracy", ratio(correct, count)},
          {"precision", ratio(precision, present)},
          {"recall", ratio(recall, present)},
          {"f1", ratio(f1, present)}};
}

std::optional<OneAnswer> EvaluationSums::one_answer(Kind kind) const {
  if (kind == Kind::masked_lm) return std::nullopt;
  return kind == Kind::regression ? one_value() : one_class();
}

std::optional<OneAnswer> EvaluationSums::one_value() const {
  constexpr double nearly = 0.02;  // one that has learned anything is far above, one that has not far below
  const std::vector<double> actual(labels_.begin(), labels_.end());
  const std::span<const double> predicted = std::span(sums_).subspan(rest_at);
  OneAnswer answer{
      .samples = static_cast<std::int64_t>(actual.size()), .value = mean_of(predicted), .label_mean = mean_of(actual)};
  answer.spread = spread_of(predicted, answer.value);
  answer.label_spread = spread_of(actual, answer.label_mean);
  return answer.spread < nearly * answer.label_spread ? std::optional(answer) : std::nullopt;
}

std::optional<OneAnswer> EvaluationSums::one_class() const {
  OneAnswer answer;
  std::int64_t predicted_classes = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    const double actual = of_class(actual_at, c), predicted = of_class(predicted_at, c);
    answer.samples += static_cast<std::int64_t>(actual);
    answer.label_classes += actual > 0;
    if (predicted == 0) continue;
    ++predicted_classes;
    answer.value = static_cast<double>(c);
  }
  return predicted_classes == 1 && answer.label_classes > 1 ? std::optional(answer) : std::nullopt;
}

bool larger_is_better(const std::string& metric) {
  static const std::vector<std::string> smaller = {"loss", "rmse", "mae", "perplexity"};
  return std::none_of(smaller.begin(), smaller.end(), [&](const std::string& name) { return metric.ends_with(name); });
}

}  // namespace bert_hpc::train
