// Metrics of evaluation from plain counts and sums that add up over ranks: a rank adds its samples, the sums are
// reduced, and every rank derives the same figures.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace bert_hpc::train {

/// What a pass over a data set adds up. All doubles, so that one reduction sums them (counts are exact below 2^53).
class EvaluationSums {
 public:
  /// `classes` = 0 for regression and masked language modelling. `near_labels`: a value near the labels of a
  /// regression, the same on all ranks, as one of them is: their variation is lost in sums of the squares of large
  /// numbers.
  explicit EvaluationSums(std::int64_t classes, double near_labels = 0);

  void add_loss(double sum, std::int64_t targets);
  void add_class(std::int32_t actual, std::int32_t predicted);
  void add_value(double actual, double predicted);
  void add_correct(std::int64_t correct) { sums_[3] += static_cast<double>(correct); }  ///< masked tokens guessed right

  std::span<double> sums() { return sums_; }  ///< reduce these over ranks
  std::int64_t targets() const { return static_cast<std::int64_t>(sums_[1]); }
  double loss() const;
  std::int64_t classes() const { return classes_; }
  /// (classes, classes), actual by row, predicted by column.
  std::vector<std::int64_t> confusion_matrix() const;

  /// Names and values, best known first: accuracy, precision, recall, f1 (macro averages as scikit-learn's with
  /// zero_division = 0); rmse, mae, r2 (NaN where all labels are alike); or accuracy and perplexity of masked tokens.
  enum class Kind { classification, regression, masked_lm };
  std::vector<std::pair<std::string, double>> metrics(Kind kind) const;

 private:
  std::int64_t classes_;
  double near_labels_;
  // loss, targets, Σ (actual − near), correct, Σ (actual − near)², Σ (error)², Σ |error|, then the confusion matrix
  std::vector<double> sums_;
};

/// Is a larger value of this metric better? Losses and errors are better when small.
bool larger_is_better(const std::string& metric);

}  // namespace bert_hpc::train
