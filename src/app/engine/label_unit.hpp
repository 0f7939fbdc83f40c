// A regression's labels in a run: in which unit it trains (data/label_scale.hpp), what the log says of that, and the
// head and its outputs on their way between that unit and the labels' own.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/data/label_scale.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::app {

/// Of the training labels; the identity for other tasks and with task.standardize = false; that of task.range where it
/// is given. Pure, so it is the same on every rank: each holds all labels. Throws Error(input) where a label lies
/// outside the range, Error(data) where the labels have no range.
data::LabelScale training_label_scale(const config::Config& input, const data::ShardReader& train);
/// Of a model that was trained: that of the range in its config.json or in the input, else the identity. Throws
/// Error(input) where they differ.
data::LabelScale evaluation_label_scale(const config::Config& input, const model::ModelConfig& config);
/// What config.json holds of the scale.
std::optional<std::array<double, 2>> exported_range(const data::LabelScale& scale);

/// As [task] levels says: ascending; none for other tasks, without the key, and for "labels" without training labels.
/// Throws Error(data) where the training labels have too many values.
std::vector<float> value_levels(const config::Task& task, std::span<const float> train_labels);
/// Throws Error(input) where a label of the data is none of the levels that the input lists.
void require_levels(const config::Task& task, const data::ShardReader& reader);
/// "levels 1, 1.5, 2"; "" without any.
std::string levels_text(std::span<const float> levels);

/// The range to which predictions are clipped, in the labels' unit.
struct PredictionRange {
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  bool is_unlimited() const;
};

/// As [task] clip_predictions says; without limits for other tasks, without the key, and for "labels" without training
/// labels (planned data). `train_labels`: (sequences).
PredictionRange prediction_range(const config::Task& task, std::span<const float> train_labels);

/// "clipped to 4 … 9, the range of the training labels"; "" without limits.
std::string prediction_range_text(const config::Task& task, const PredictionRange& range);

/// "mean squared error of standardized labels (mean 6.5, deviation 1.1)", or what it is with a range; "" for other
/// tasks.
std::string regression_loss_text(const config::Config& input, const data::LabelScale& scale);

/// Where all labels that a regression trains on are equal; "" elsewhere.
std::string equal_labels_warning(const config::Config& input, const data::ShardReader& train);

/// What keeps a run from resuming: "the labels' unit: mean 6.5, deviation 1.1 there, labels as they are here"; "" where
/// the units are equal.
std::string unit_difference(const data::LabelScale& there, const data::LabelScale& here);

/// The head that was read from a file, in the labels' unit, becomes one for training. `classifier`: the name of its
/// layer to the outputs (layers::HeadSettings). `fresh`: parameters that were not read.
void head_into_training_unit(const data::LabelScale& scale, const std::string& classifier,
                             const std::vector<std::string>& fresh, core::ParameterStore& parameters);

/// Values of the parameter `name` as a file holds them: `values`, or `folded`, which gets the head's in the labels'
/// unit. `values` is in host memory.
std::span<const float> head_in_labels_unit(const data::LabelScale& scale, const std::string& classifier,
                                           const std::string& name, std::span<const float> values,
                                           std::vector<float>& folded);

/// What the head predicts, in the labels' unit and clipped to the range: `outputs`, or `converted`, which gets it.
std::span<const float> outputs_in_labels_unit(const data::LabelScale& scale, const PredictionRange& range,
                                              std::span<const float> outputs, std::vector<float>& converted);

}  // namespace bert_hpc::app
