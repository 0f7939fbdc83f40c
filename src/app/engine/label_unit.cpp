#include "bert_hpc/app/engine/label_unit.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {
namespace {

/// Does the task predict numbers?
bool has_values(const config::Config& input) {
  return tasks::named(input.task.name).labels == tasks::Labels::values;
}

/// The part of a regression's head that a parameter of this name is.
std::optional<data::HeadPart> head_part(const std::string& name) {
  if (name == "classifier.weight") return data::HeadPart::weight;
  if (name == "classifier.bias") return data::HeadPart::bias;
  return std::nullopt;
}

/// With all digits.
std::string unit_text(const data::LabelScale& scale) {
  if (scale.is_identity()) return "labels as they are";
  std::ostringstream text;
  text.precision(17);
  text << "mean " << scale.mean << ", deviation " << scale.deviation;
  return text.str();
}

}  // namespace

data::LabelScale training_label_scale(const config::Config& input, const data::ShardReader& train) {
  const bool standardizes = has_values(input) && input.task.is_on(tasks::standardize_key);
  return standardizes && !train.values().empty() ? data::fit_label_scale(train.values()) : data::LabelScale();
}

bool PredictionRange::is_unlimited() const {
  return std::isinf(low) && std::isinf(high);
}

PredictionRange prediction_range(const config::Task& task, std::span<const float> train_labels) {
  const config::WordOrNumbers range = task.list(tasks::clip_predictions_key);
  if (!range.numbers.empty()) {
    return {static_cast<float>(range.numbers.at(0)), static_cast<float>(range.numbers.at(1))};
  }
  if (range.word.empty() || train_labels.empty()) return {};
  const auto [low, high] = std::minmax_element(train_labels.begin(), train_labels.end());
  return {*low, *high};
}

std::string prediction_range_text(const config::Task& task, const PredictionRange& range) {
  if (range.is_unlimited()) return {};
  const bool of_labels = !task.list(tasks::clip_predictions_key).word.empty();
  return "clipped to " + core::format_number(range.low) + " … " + core::format_number(range.high) +
         (of_labels ? ", the range of the training labels" : "");
}

std::string regression_loss_text(const config::Config& input, const data::LabelScale& scale) {
  if (!has_values(input)) return {};
  const bool concordance = input.task.is(tasks::loss_key, tasks::concordance_loss);
  const std::string kind =
      concordance ? "1 − the concordance of a step's predictions with its " : "mean squared error of ";
  if (!input.task.is_on(tasks::standardize_key)) {
    return kind + (concordance ? "labels" : "the labels") + " (task.standardize = false)";
  }
  return kind + "standardized labels (mean " + core::format_number(scale.mean) + ", deviation " +
         core::format_number(scale.deviation) + ")";
}

std::string equal_labels_warning(const config::Config& input, const data::ShardReader& train) {
  if (!has_values(input) || train.values().empty() || !data::all_equal(train.values())) return {};
  return "all " + core::counted(train.samples(), "label") + " of the training data are equal (" +
         core::format_number(train.values().front()) +
         "): there is nothing to learn from them. Check [source] label in the input of bert_hpc_prep.";
}

std::string unit_difference(const data::LabelScale& there, const data::LabelScale& here) {
  if (there == here) return {};
  return "the labels' unit: " + unit_text(there) + " there, " + unit_text(here) + " here";
}

void head_into_training_unit(const data::LabelScale& scale, const std::vector<std::string>& fresh,
                             core::ParameterStore& parameters) {
  if (scale.is_identity()) return;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    const auto part = head_part(slice.name);
    if (!part || std::find(fresh.begin(), fresh.end(), slice.name) != fresh.end()) continue;
    const std::span<float> values = parameters.change_values().subspan(static_cast<std::size_t>(slice.offset),
                                                                       static_cast<std::size_t>(slice.size));
    std::vector<float> staging(values.size());
    core::copy_to_host(std::span<const float>(values), std::span<float>(staging));
    data::unfold_from_head(scale, *part, staging);
    core::copy_to_device(std::span<const float>(staging), values);
  }
}

std::span<const float> head_in_labels_unit(const data::LabelScale& scale, const std::string& name,
                                           std::span<const float> values, std::vector<float>& folded) {
  const auto part = head_part(name);
  if (!part || scale.is_identity()) return values;
  folded.assign(values.begin(), values.end());
  data::fold_into_head(scale, *part, folded);
  return folded;
}

std::span<const float> outputs_in_labels_unit(const data::LabelScale& scale, const PredictionRange& range,
                                              std::span<const float> outputs, std::vector<float>& converted) {
  if (scale.is_identity() && range.is_unlimited()) return outputs;
  converted.assign(outputs.begin(), outputs.end());
  for (float& output : converted) {
    if (!scale.is_identity()) output = scale.in_labels_unit(output);
    output = std::clamp(output, range.low, range.high);  // NaN stays
  }
  return converted;
}

}  // namespace bert_hpc::app
