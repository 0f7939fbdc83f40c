// Metrics of evaluations. A family of metrics is one file in src/metrics: it states the names of its metrics, what it
// adds up over a data set, and how the figures follow from the sums. Sums are plain doubles: each rank adds its
// samples, the sums of all ranks are added, and every rank derives the same figures. src/metrics/registry.cpp lists the
// families.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/metrics/class_counts.hpp"

namespace bert_hpc::metrics {

struct Metric {
  std::string name;   ///< in inputs and files
  std::string label;  ///< in the log and in pictures; "": the name
  bool larger_is_better = true;
  bool in_log = true;        ///< else in files alone
  std::int64_t outputs = 0;  ///< defined for a head with so many outputs alone; 0: any number
  bool is_goal = true;       ///< else no model is better by it: evaluation.best may not name it
  std::string percent_of{};  ///< the metric that counts all of which this is a percentage; the log has both counts
};

/// The data set under evaluation.
struct EvaluatedSet {
  std::int64_t outputs = 0;                ///< columns of the logits
  std::span<const std::string> columns{};  ///< names of the outputs; must outlive its users
  // Labels, which must outlive their users; empty but for what the task has.
  std::span<const float> values{};          ///< (samples, outputs); NaN: unknown, of several outputs
  std::span<const std::int32_t> classes{};  ///< (samples)
  std::span<const std::uint8_t> sets{};     ///< (samples, outputs): 1 for each label name in a sample's set, else 0
  std::int64_t entity_types = 0;            ///< of words: types that their tags name
  std::span<const std::int32_t> levels{};   ///< (samples): of relevance, relevant from 1 on
  std::int64_t row_texts = 2;               ///< of embeddings: texts of each row with a score, whose values are equal
  double least_output = 0;                  ///< of sets: a name is in the predicted set from this output on
  std::span<const float> value_levels{};    ///< ascending, of numbers: what they count as; empty: as they are
};

/// Results of one micro-batch, all in host memory.
struct Results {
  const core::MicroBatch& batch;              ///< with targets
  std::span<const std::int32_t> predicted{};  ///< (rows of the head): the index of the largest output
  std::span<const float> outputs{};           ///< (rows of the head, outputs): in the labels' unit
  std::span<const float> losses{};            ///< (rows of the head): in the order of the parts, if it has parts
  std::span<const float> confidences{};       ///< (rows of the head): the largest probability of softmax(outputs)
};

/// Σ row losses of a data set and the number of rows.
struct LossSum {
  double sum = 0, targets = 0;
  double mean() const { return targets > 0 ? sum / targets : 0.0; }
};

/// A model that gives the same answer whatever it reads.
struct OneAnswer {
  std::int64_t samples = 0;
  double value = 0;                         ///< the class; of a regression, the mean prediction
  double spread = 0;                        ///< of the predictions: standard deviation; 0 for classes
  std::int64_t label_classes = 0;           ///< classes that occur as labels; 0 for other tasks
  std::int64_t answerable = 0;              ///< questions that have an answer; 0 for other tasks
  double label_mean = 0, label_spread = 0;  ///< of a regression's labels
};

using Sums = std::span<double>;
using ConstSums = std::span<const double>;

struct Family {
  std::vector<Metric> metrics;
  // Members of Results that it reads:
  bool reads_predicted = false, reads_outputs = false, reads_confidences = false, reads_losses = false;
  std::int64_t (*size)(const EvaluatedSet&) = nullptr;  ///< doubles that it adds up
  /// Null if the sums are not of micro-batches (Evaluation::sums_of()).
  void (*add)(const EvaluatedSet&, const Results&, Sums sums) = nullptr;
  /// One for each of `metrics`; NaN if it is undefined.
  std::vector<double> (*values)(const EvaluatedSet&, const LossSum&, ConstSums sums) = nullptr;

  // What a family may have besides:
  /// The loss, if it is not the mean of row losses.
  double (*loss)(ConstSums sums) = nullptr;
  /// (outputs, metrics): the metrics of each output alone, which are NaN if undefined; empty for one output.
  std::vector<double> (*column_values)(const EvaluatedSet&, ConstSums sums) = nullptr;
  std::int64_t (*bytes)(const EvaluatedSet&) = nullptr;  ///< memory while figures are made, with the sums
  std::optional<OneAnswer> (*one_answer)(const EvaluatedSet&, ConstSums sums) = nullptr;
  /// Views of the sums.
  ClassCounts (*class_counts)(const EvaluatedSet&, ConstSums sums) = nullptr;
  ClassCounts (*type_counts)(const EvaluatedSet&, ConstSums sums) = nullptr;  ///< of entity types
  /// Rows of the confusion matrix; 0: there is none.
  std::int64_t (*matrix_classes)(const EvaluatedSet&) = nullptr;
  /// (classes, classes), actual by row, predicted by column; empty if there is none.
  std::vector<std::int64_t> (*confusion_matrix)(const EvaluatedSet&, ConstSums sums) = nullptr;
};

/// Adds up one evaluation.
class Evaluation {
 public:
  /// The families must outlive it.
  Evaluation(std::vector<const Family*> families, const EvaluatedSet& set);

  bool reads_predicted() const;
  bool reads_outputs() const;
  bool reads_confidences() const;
  bool reads_losses() const;
  /// loss: Σ row losses of the micro-batch.
  void add(double loss, const Results& results);
  /// Instead of what add() was given: of a loss that is not made micro-batch by micro-batch.
  void set_loss(const LossSum& loss);
  Sums sums() { return accumulators_; }  ///< add these over ranks before asking for figures
  /// Sums of one family, before they are added over ranks; empty if it is none of these.
  Sums sums_of(const Family& family);

  double loss() const;
  /// Name and value of each metric. Those of outputs alone follow, as "rmse_NAME".
  std::vector<std::pair<std::string, double>> values() const;
  std::optional<OneAnswer> one_answer() const;
  /// (3, classes): labels, predictions and hits of each class; empty if there are none, or too many classes.
  std::vector<std::int64_t> class_counts() const;
  /// (3, entity types): gold, found and correct entities; empty if there are none.
  std::vector<std::int64_t> type_counts() const;
  std::int64_t matrix_classes() const;
  std::vector<std::int64_t> confusion_matrix() const;

 private:
  LossSum loss_sum() const { return {accumulators_[0], accumulators_[1]}; }
  ConstSums sums_of(std::size_t family) const;

  std::vector<const Family*> families_;
  EvaluatedSet set_;
  std::vector<std::size_t> begins_;   // (families + 1): where in accumulators_ those of a family lie
  std::vector<double> accumulators_;  // loss, rows, then those of the families
};

/// Rows of the confusion matrix of an evaluation with these families; 0: there is none.
std::int64_t matrix_classes(const std::vector<const Family*>& families, const EvaluatedSet& set);
/// Classes of which an evaluation with these families reports figures; 0: of none.
std::int64_t reported_classes(const std::vector<const Family*>& families, const EvaluatedSet& set);
/// Memory that an evaluation with these families takes.
std::int64_t bytes_of(const std::vector<const Family*>& families, const EvaluatedSet& set);

}  // namespace bert_hpc::metrics
