// A regression's settings: the unit in which it trains (data/label_scale.hpp), limits and levels of its predictions,
// and what the log says of them. Pure.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/objectives/output_rules.hpp"

namespace bert_hpc::objectives {

/// [task] of a regression. Lists are unset, have numbers, or the word "labels".
struct RegressionSettings {
  config::WordOrNumbers range{}, clip_predictions{};  ///< two numbers, ascending
  config::WordOrNumbers levels{};                     ///< ascending
  bool standardize = false, concordance = false;
};

RegressionSettings regression_settings(const config::Task& task);

/// Scale in which a training sees its labels: that of the range if it is given, else the standardized one, or the
/// identity with standardize = false. Every rank holds all labels and so gets the same. Throws Error(input) if a label
/// lies outside the range, Error(data) if the labels have no range.
data::LabelScale training_label_scale(const RegressionSettings& settings, std::span<const float> train_labels);
/// Scale of a trained model's outputs: that of the range in its config.json or in the input, else the identity. Throws
/// Error(input) if the two ranges differ.
data::LabelScale evaluation_label_scale(const RegressionSettings& settings,
                                        const std::optional<std::array<double, 2>>& exported);

/// The same for several label columns, labels (samples, columns): standardized ones, of each column's known labels, or
/// labels as they are. Throws Error(data) if no label of a column is known.
data::LabelScales training_label_scales(const RegressionSettings& settings, std::span<const float> train_labels,
                                        std::span<const std::string> columns);
/// Throws Error(input) with all settings that are for one label column.
void require_fit_of_columns(const RegressionSettings& settings, std::span<const std::string> columns);

/// Ascending; none without the key, and for "labels" without training labels. Throws Error(data) if the training labels
/// have too many values.
std::vector<float> value_levels(const RegressionSettings& settings, std::span<const float> train_labels);
/// Throws Error(input) if a label is none of the levels that the input lists.
void require_levels(const RegressionSettings& settings, std::span<const float> labels);
/// "levels 1, 1.5, 2"; "" without any.
std::string levels_text(std::span<const float> levels);

/// Without limits without the key, and for "labels" without training labels (planned data).
PredictionRange prediction_range(const RegressionSettings& settings, std::span<const float> train_labels);
/// "clipped to 4 … 9, the range of the training labels"; "" without limits.
std::string prediction_range_text(const RegressionSettings& settings, const PredictionRange& range);

/// "mean squared error of standardized labels (mean 6.5, deviation 1.1)", or what it is with a range. `columns`: names
/// of the outputs.
std::string regression_loss_text(const RegressionSettings& settings, const data::LabelScales& scales,
                                 std::span<const std::string> columns);

/// A warning if all training labels are equal, or all known ones of a column; else "".
std::string equal_labels_warning(const data::ShardReader& train);

}  // namespace bert_hpc::objectives
