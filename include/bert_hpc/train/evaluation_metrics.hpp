// Metrics of evaluation from plain counts and sums that add up over ranks: a rank adds its samples, the sums are
// reduced, and every rank derives the same figures. Correlations need the samples side by side: a regression's
// predictions lie each in a place of its own, 0 on the ranks that did not make it, so that the same reduction brings
// them together, and their figures depend on the samples' order in the data alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace bert_hpc::train {

/// A model that gives the same answer whatever it reads.
struct OneAnswer {
  std::int64_t samples = 0;
  double value = 0;                         ///< the class; of a regression, the mean prediction
  double spread = 0;                        ///< of the predictions: standard deviation; 0 for classes
  std::int64_t label_classes = 0;           ///< classes that occur as labels; 0 for a regression
  double label_mean = 0, label_spread = 0;  ///< of a regression's labels
};

/// What a pass over a data set adds up. All doubles, so that one reduction sums them (counts are exact below 2^53).
class EvaluationSums {
 public:
  /// `classes` = 0 for masked language modelling.
  explicit EvaluationSums(std::int64_t classes) : EvaluationSums(classes, {}) {}
  /// For regression: the labels of the whole data set, which must outlive it.
  explicit EvaluationSums(std::span<const float> labels) : EvaluationSums(0, labels) {}

  void add_loss(double sum, std::int64_t targets);
  void add_class(std::int32_t actual, std::int32_t predicted);
  void add_value(std::int64_t sample, double predicted);
  void add_correct(std::int64_t correct) { sums_[2] += static_cast<double>(correct); }  ///< masked tokens guessed right

  std::span<double> sums() { return sums_; }  ///< reduce these over ranks
  std::int64_t targets() const { return static_cast<std::int64_t>(sums_[1]); }
  double loss() const;
  std::int64_t classes() const { return classes_; }
  /// With more classes than this there are counts per class and no confusion matrix, as its
  /// memory grows with the square (50,000 classes: 20 GB).
  static constexpr std::int64_t most_confusion_classes = 1000;
  bool has_confusion_matrix() const { return classes_ > 0 && classes_ <= most_confusion_classes; }
  /// (classes, classes), actual by row, predicted by column; empty where there is none.
  std::vector<std::int64_t> confusion_matrix() const;

  /// Names and values, best known first: accuracy, precision, recall, f1 (macro averages as scikit-learn's with
  /// zero_division = 0); rmse, mae, r2 (NaN where all labels are alike), pearson and spearman (NaN where all labels or
  /// all predictions are); or accuracy and perplexity of masked tokens.
  enum class Kind { classification, regression, masked_lm };
  std::vector<std::pair<std::string, double>> metrics(Kind kind) const;

  /// Is one class predicted for every sample though several occur, or nearly one value (their deviation is less than 2%
  /// of the labels')? Nothing for masked_lm, and where all labels are alike, so that one answer is right.
  std::optional<OneAnswer> one_answer(Kind kind) const;

  /// What a sample of a regression takes while its metrics are made: a prediction, a label, two ranks and their order.
  static constexpr std::int64_t bytes_of_value = 5 * std::int64_t{sizeof(double)};
  /// What an evaluation of this many classes takes: its sums, and the same as a matrix to be recorded.
  static std::int64_t bytes_of_classes(std::int64_t classes) {
    return 2 * class_sums(classes) * std::int64_t{sizeof(double)};
  }

 private:
  static std::int64_t class_sums(std::int64_t classes);
  double& of_class(std::int64_t count, std::int64_t label);
  double of_class(std::int64_t count, std::int64_t label) const;
  std::size_t matrix_at() const;
  EvaluationSums(std::int64_t classes, std::span<const float> labels);
  std::vector<std::pair<std::string, double>> regression_metrics() const;
  std::optional<OneAnswer> one_value() const;
  std::optional<OneAnswer> one_class() const;

  std::int64_t classes_;
  std::span<const float> labels_;
  // loss, targets, correct, then what is counted of classes or a regression's predictions
  std::vector<double> sums_;
};

/// Pearson's correlation of two rows of equally many values: NaN where those of one are all alike. Of their ranks it is
/// Spearman's.
double pearson(std::span<const double> x, std::span<const double> y);

/// Ranks from 1 by value; equal values share the mean of theirs. `values` has no NaN.
std::vector<double> ranks_of(std::span<const double> values);

/// Is a larger value of this metric better? Losses and errors are better when small.
bool larger_is_better(const std::string& metric);

}  // namespace bert_hpc::train
