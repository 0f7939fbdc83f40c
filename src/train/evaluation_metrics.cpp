#include "bert_hpc/train/evaluation_metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bert_hpc::train {
namespace {

constexpr std::size_t loss_at = 0, targets_at = 1, actual_at = 2, correct_at = 3, squares_at = 4, errors_at = 5,
                      absolute_at = 6, confusion_at = 7;

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : 0.0;
}

/// Σ (y − mean)² of n values from the sums of y − c and their squares; 0 where it is no more than what rounding leaves
/// of two equal numbers of the squares' size, which says nothing.
double variation_of(double sum, double squares, double n) {
  constexpr double rounding = 1e-12;
  const double variation = squares - sum * ratio(sum, n);
  return variation > rounding * squares ? variation : 0.0;
}

}  // namespace

EvaluationSums::EvaluationSums(std::int64_t classes, double near_labels)
    : classes_(classes),
      near_labels_(near_labels),
      sums_(confusion_at + static_cast<std::size_t>(classes * classes), 0.0) {}

void EvaluationSums::add_loss(double sum, std::int64_t targets) {
  sums_[loss_at] += sum;
  sums_[targets_at] += static_cast<double>(targets);
}

void EvaluationSums::add_class(std::int32_t actual, std::int32_t predicted) {
  sums_[confusion_at + static_cast<std::size_t>(actual * classes_ + predicted)] += 1;
}

void EvaluationSums::add_value(double actual, double predicted) {
  const double apart = actual - near_labels_;
  sums_[actual_at] += apart;
  sums_[squares_at] += apart * apart;
  sums_[errors_at] += (predicted - actual) * (predicted - actual);
  sums_[absolute_at] += std::abs(predicted - actual);
}

double EvaluationSums::loss() const {
  return ratio(sums_[loss_at], sums_[targets_at]);
}

std::vector<std::int64_t> EvaluationSums::confusion_matrix() const {
  std::vector<std::int64_t> matrix;
  for (std::size_t i = confusion_at; i < sums_.size(); ++i) matrix.push_back(static_cast<std::int64_t>(sums_[i]));
  return matrix;
}

std::vector<std::pair<std::string, double>> EvaluationSums::metrics(Kind kind) const {
  const double count = sums_[targets_at];
  if (kind == Kind::masked_lm) return {{"accuracy", ratio(sums_[correct_at], count)}, {"perplexity", std::exp(loss())}};
  if (kind == Kind::regression) {
    const double variation = variation_of(sums_[actual_at], sums_[squares_at], count);
    const double r2 = variation > 0 ? 1.0 - sums_[errors_at] / variation : std::numeric_limits<double>::quiet_NaN();
    return {{"rmse", std::sqrt(ratio(sums_[errors_at], count))}, {"mae", ratio(sums_[absolute_at], count)}, {"r2", r2}};
  }
  // Macro averages run over the classes that occur, as actual or as predicted.
  double correct = 0, precision = 0, recall = 0, f1 = 0, present = 0;
  const auto at = [this](std::int64_t actual, std::int64_t predicted) {
    return sums_[confusion_at + static_cast<std::size_t>(actual * classes_ + predicted)];
  };
  for (std::int64_t c = 0; c < classes_; ++c) {
    double actual = 0, predicted = 0;
    for (std::int64_t other = 0; other < classes_; ++other) {
      actual += at(c, other);
      predicted += at(other, c);
    }
    correct += at(c, c);
    if (actual + predicted == 0) continue;
    ++present;
    precision += ratio(at(c, c), predicted);
    recall += ratio(at(c, c), actual);
    f1 += ratio(2 * at(c, c), actual + predicted);
  }
  return {{"accuracy", ratio(correct, count)},
          {"precision", ratio(precision, present)},
          {"recall", ratio(recall, present)},
          {"f1", ratio(f1, present)}};
}

bool larger_is_better(const std::string& metric) {
  static const std::vector<std::string> smaller = {"loss", "rmse", "mae", "perplexity"};
  return std::none_of(smaller.begin(), smaller.end(), [&](const std::string& name) { return metric.ends_with(name); });
}

}  // namespace bert_hpc::train
