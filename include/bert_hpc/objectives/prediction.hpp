// What a task predicts for each sample: from the head's outputs to the columns of predictions.h5 and predictions.csv.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/io/predictions.hpp"
#include "bert_hpc/metrics/metric.hpp"

namespace bert_hpc::objectives {

/// Neighbouring samples with what the model says of them.
struct SampleOutputs {
  std::int64_t rows = 0;
  std::span<const float> outputs;               ///< (rows, labels.outputs), in the labels' unit
  metrics::EvaluatedSet labels;                 ///< of these rows; empty if they are unknown
  const std::vector<std::string>& label_names;  ///< of the outputs; one without a name has its number
};

/// The same rows for both files. Of no rows there are the same columns.
struct PredictedRows {
  std::vector<io::PredictionColumn> stored;  ///< predictions.h5
  std::vector<io::PredictionColumn> shown;   ///< predictions.csv
};

using Predict = PredictedRows (*)(const SampleOutputs&);

/// Classes by softmax. Stored: label (−1: unknown), prediction, probabilities and logits (rows, outputs). Shown: label
/// and prediction by name, the prediction's probability, and a column for each class where they are not many.
PredictedRows predict_classes(const SampleOutputs& samples);
/// Numbers as they are. Stored and shown: label (NaN: unknown), prediction; with labels.value_levels also the level
/// that is nearest to the prediction. With several outputs both are stored as (rows, outputs), and shown as
/// "label_NAME" and "prediction_NAME" of each.
PredictedRows predict_values(const SampleOutputs& samples);
/// Sets of names by sigmoid: a name is in the set where its output is at least labels.least_output.
/// Stored: label (−1: unknown), prediction, both 1 or 0 for each name, probabilities and logits, all (rows, outputs).
/// Shown: label and prediction as names with commas between them, and a column for each name where they are not many.
PredictedRows predict_sets(const SampleOutputs& samples);

/// Raw scores. Stored and shown: label (−1: unknown), prediction.
PredictedRows predict_scores(const SampleOutputs& samples);

/// The probability of one output by softmax(outputs); NaN if one of them is.
float probability_of(std::span<const float> outputs, std::size_t output);

/// With more label names than this there are no columns of their own in predictions.csv: a wider table is of no use in
/// a spreadsheet.
inline constexpr std::int64_t max_name_columns = 100;

}  // namespace bert_hpc::objectives
