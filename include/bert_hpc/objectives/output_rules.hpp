// From a head's outputs to predictions: the unit of a regression's labels (data/label_scale.hpp), limits, levels and
// thresholds. A training may have another unit than the labels; files hold its head, and predictions, in the labels'.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/data/label_scale.hpp"
#include "bert_hpc/layers/heads.hpp"

namespace bert_hpc::objectives {

/// The range to which predictions are clipped, in the labels' unit.
struct PredictionRange {
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();

  bool is_unlimited() const;
};

/// Rules of a run for the outputs of its model. A task without such rules has the defaults.
struct OutputRules {
  data::LabelScales scales{};       ///< of a regression; in modes that do not train it may have a range alone
  PredictionRange range{};          ///< of a regression
  std::vector<float> levels{};      ///< as metrics::EvaluatedSet::value_levels
  double least_output = 0;          ///< as of metrics::EvaluatedSet
  bool searches_threshold = false;  ///< least_output is found on the validation data
};

/// The logit whose sigmoid is this.
double output_of(double probability);

/// What config.json holds of the scales.
std::optional<std::array<double, 2>> exported_range(const data::LabelScales& scales);

/// The labels' unit with all digits, for checkpoints: "mean 6.5, deviation 1.1", with "; " between several columns; ""
/// if labels are as they are.
std::string unit_text(const data::LabelScales& scales);
/// What keeps a run from resuming: "the labels' unit: mean 6.5, deviation 1.1 there, labels as they are here"; "" if
/// the units are equal. Both are unit_text().
std::string unit_difference(const std::string& there, const std::string& here);

/// Throws Error(input) if the export cannot put the labels' unit into this head, which has no bias.
void require_foldable(const data::LabelScales& scales, const layers::HeadSettings& head);

/// The head that was read from a file, in the labels' unit, becomes one for training. `classifier`: the name of its
/// layer to the outputs (layers::HeadSettings). `fresh`: parameters that were not read.
void head_into_training_unit(const data::LabelScales& scales, const std::string& classifier,
                             const std::vector<std::string>& fresh, core::ParameterStore& parameters);

/// Elements of a parameter.
struct ParameterPart {
  const std::string& name;
  std::int64_t size, begin;       ///< of the whole parameter; of the first element
  std::span<const float> values;  ///< in host memory
};

/// Values as a file holds them: `part.values`, or `folded`, which gets the head's in the labels' unit.
std::span<const float> head_in_labels_unit(const data::LabelScales& scales, const std::string& classifier,
                                           const ParameterPart& part, std::vector<float>& folded);

/// Outputs, those of whole rows, in the labels' unit and clipped to the range: `outputs`, or `converted`, which gets
/// them.
std::span<const float> outputs_in_labels_unit(const data::LabelScales& scales, const PredictionRange& range,
                                              std::span<const float> outputs, std::vector<float>& converted);

}  // namespace bert_hpc::objectives
