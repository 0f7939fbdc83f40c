// One class of several for each sample. Sums: three counts per class, then the confusion matrix.
#include "bert_hpc/metrics/class_counts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : 0.0;
}

bool has_matrix(std::int64_t classes) {
  return classes > 0 && classes <= max_confusion_classes;
}

std::size_t classes_of(const EvaluatedSet& set) {
  return static_cast<std::size_t>(set.outputs);
}

ClassCounts counts_of(const EvaluatedSet& set, ConstSums sums) {
  const std::size_t classes = classes_of(set);
  return {sums.subspan(0, classes), sums.subspan(classes, classes), sums.subspan(2 * classes, classes)};
}

std::int64_t size(const EvaluatedSet& set) {
  return 3 * set.outputs + (has_matrix(set.outputs) ? set.outputs * set.outputs : 0);
}

void add(const EvaluatedSet& set, const Results& results, Sums sums) {
  const std::size_t classes = classes_of(set);
  for (std::size_t row = 0; row < results.predicted.size(); ++row) {
    const auto actual = static_cast<std::size_t>(results.batch.targets.get<core::ClassTargets>().data[row]);
    const auto predicted = static_cast<std::size_t>(results.predicted[row]);
    sums[actual] += 1;
    sums[classes + predicted] += 1;
    if (actual == predicted) sums[2 * classes + actual] += 1;
    if (has_matrix(set.outputs)) sums[3 * classes + actual * classes + predicted] += 1;
  }
}

double f1(double actual, double predicted, double hits) {
  return ratio(2 * hits, actual + predicted);
}

double precision(double, double predicted, double hits) {
  return ratio(hits, predicted);
}

double recall(double actual, double, double hits) {
  return ratio(hits, actual);
}

/// f(actual, predicted, hits) of each class.
template <class F>
std::vector<double> of_each(const ClassCounts& counts, const F& f) {
  std::vector<double> values(counts.actual.size());
  for (std::size_t c = 0; c < values.size(); ++c) {
    values[c] = f(counts.actual[c], counts.predicted[c], counts.hits[c]);
  }
  return values;
}

double sum_of(std::span<const double> counts) {
  double sum = 0;
  for (const double count : counts) sum += count;
  return sum;
}

/// The mean of f(actual, predicted, hits) over the classes that occur.
template <class F>
double macro(const ClassCounts& counts, const F& f) {
  double sum = 0, present = 0;
  for (std::size_t c = 0; c < counts.actual.size(); ++c) {
    if (counts.actual[c] + counts.predicted[c] == 0) continue;
    ++present;
    sum += f(counts.actual[c], counts.predicted[c], counts.hits[c]);
  }
  return ratio(sum, present);
}

/// The mean recall of the classes that samples have.
double balanced_accuracy(const ClassCounts& counts) {
  double sum = 0, present = 0;
  for (std::size_t c = 0; c < counts.actual.size(); ++c) {
    if (counts.actual[c] == 0) continue;
    ++present;
    sum += counts.hits[c] / counts.actual[c];
  }
  return ratio(sum, present);
}

/// Cohen, "A coefficient of agreement for nominal scales", 1960; 0 where chance would agree always.
double kappa(const ClassCounts& counts) {
  const double samples = sum_of(counts.actual), correct = sum_of(counts.hits);
  double by_chance = 0;  // pairs of equal classes, of samples² pairs
  for (std::size_t c = 0; c < counts.actual.size(); ++c) by_chance += counts.actual[c] * counts.predicted[c];
  const double possible = samples * samples - by_chance;
  return possible > 0 ? (correct * samples - by_chance) / possible : 0.0;
}

std::vector<double> values(const EvaluatedSet& set, const LossSum&, ConstSums sums) {
  const ClassCounts counts = counts_of(set, sums);
  return {accuracy(counts),    macro_precision(counts),      macro_recall(counts),
          macro_f1(counts),    weighted_f1(counts),          micro_f1(counts),
          positive_f1(counts), matthews_correlation(counts), balanced_accuracy(counts),
          kappa(counts)};
}

/// Whether one class is predicted for every sample although several occur.
std::optional<OneAnswer> one_answer(const EvaluatedSet& set, ConstSums sums) {
  const ClassCounts counts = counts_of(set, sums);
  OneAnswer answer;
  std::int64_t predicted_classes = 0;
  for (std::size_t c = 0; c < counts.actual.size(); ++c) {
    answer.samples += static_cast<std::int64_t>(counts.actual[c]);
    answer.label_classes += counts.actual[c] > 0;
    if (counts.predicted[c] == 0) continue;
    ++predicted_classes;
    answer.value = static_cast<double>(c);
  }
  return predicted_classes == 1 && answer.label_classes > 1 ? std::optional(answer) : std::nullopt;
}

std::vector<std::int64_t> confusion_matrix(const EvaluatedSet& set, ConstSums sums) {
  std::vector<std::int64_t> matrix;
  if (!has_matrix(set.outputs)) return matrix;
  for (const double count : sums.subspan(3 * classes_of(set))) matrix.push_back(static_cast<std::int64_t>(count));
  return matrix;
}

std::int64_t matrix_classes(const EvaluatedSet& set) {
  return has_matrix(set.outputs) ? set.outputs : 0;
}

/// The sums, and the same as counts and a matrix to be recorded.
std::int64_t bytes(const EvaluatedSet& set) {
  return 2 * size(set) * std::int64_t{sizeof(double)};
}

}  // namespace

std::vector<double> class_precision(const ClassCounts& counts) {
  return of_each(counts, precision);
}

std::vector<double> class_recall(const ClassCounts& counts) {
  return of_each(counts, recall);
}

std::vector<double> class_f1(const ClassCounts& counts) {
  return of_each(counts, f1);
}

double accuracy(const ClassCounts& counts) {
  double correct = 0, all = 0;
  for (std::size_t c = 0; c < counts.actual.size(); ++c) {
    correct += counts.hits[c];
    all += counts.actual[c];
  }
  return ratio(correct, all);
}

double macro_precision(const ClassCounts& counts) {
  return macro(counts, precision);
}

double macro_recall(const ClassCounts& counts) {
  return macro(counts, recall);
}

double macro_f1(const ClassCounts& counts) {
  return macro(counts, f1);
}

double weighted_f1(const ClassCounts& counts) {
  double sum = 0;
  for (std::size_t c = 0; c < counts.actual.size(); ++c) {
    sum += counts.actual[c] * f1(counts.actual[c], counts.predicted[c], counts.hits[c]);
  }
  return ratio(sum, sum_of(counts.actual));
}

double micro_f1(const ClassCounts& counts) {
  return f1(sum_of(counts.actual), sum_of(counts.predicted), sum_of(counts.hits));
}

double positive_f1(const ClassCounts& counts) {
  return counts.actual.size() == 2 ? f1(counts.actual[1], counts.predicted[1], counts.hits[1]) : undefined;
}

double matthews_correlation(const ClassCounts& counts) {
  const double samples = sum_of(counts.actual), correct = sum_of(counts.hits);
  double both = 0, actual_squares = 0, predicted_squares = 0;
  for (std::size_t c = 0; c < counts.actual.size(); ++c) {
    both += counts.actual[c] * counts.predicted[c];
    actual_squares += counts.actual[c] * counts.actual[c];
    predicted_squares += counts.predicted[c] * counts.predicted[c];
  }
  const double all = samples * samples;
  const double spread = std::sqrt(all - actual_squares) * std::sqrt(all - predicted_squares);
  return spread > 0 ? std::clamp((correct * samples - both) / spread, -1.0, 1.0) : 0.0;
}

const Family& class_counts() {
  static const Family family = {
      .metrics = {{"accuracy", ""},
                  {"precision", "macro precision"},
                  {"recall", "macro recall"},
                  {"f1", "macro f1"},
                  {.name = "weighted_f1", .label = "weighted f1", .in_log = false},
                  {.name = "micro_f1", .label = "micro f1", .in_log = false},
                  {.name = "positive_f1", .label = "f1 of class 1", .in_log = false, .outputs = 2},
                  {.name = "mcc", .label = "", .in_log = false},
                  {.name = "balanced_accuracy", .label = "balanced accuracy", .in_log = false},
                  {.name = "kappa", .label = "Cohen's kappa", .in_log = false}},
      .reads_predicted = true,
      .size = size,
      .add = add,
      .values = values,
      .bytes = bytes,
      .one_answer = one_answer,
      .class_counts = counts_of,
      .matrix_classes = matrix_classes,
      .confusion_matrix = confusion_matrix};
  return family;
}

}  // namespace bert_hpc::metrics
