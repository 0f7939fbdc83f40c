#include "app/engine/label_unit.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/levels.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {
namespace {

/// Does the task predict numbers?
bool has_values(const config::Config& input) {
  return tasks::named(input.task.name).labels == tasks::Labels::values;
}

/// The part of a regression's head that a parameter of this name is.
std::optional<data::HeadPart> head_part(const std::string& classifier, const std::string& name) {
  if (name == classifier + ".weight") return data::HeadPart::weight;
  if (name == classifier + ".bias") return data::HeadPart::bias;
  return std::nullopt;
}

/// With all digits.
std::string unit_text(const data::LabelScale& scale) {
  if (scale.is_identity()) return "labels as they are";
  std::ostringstream text;
  text.precision(17);
  if (scale.bounded) {
    text << "the range " << scale.low() << " … " << scale.high();
    return text.str();
  }
  text << "mean " << scale.mean << ", deviation " << scale.deviation;
  return text.str();
}

std::string range_text(double low, double high) {
  return core::format_number(low) + " … " + core::format_number(high);
}

data::LabelScale range_scale(const config::WordOrNumbers& range, std::span<const float> labels) {
  if (labels.empty()) {  // planned data
    return range.numbers.empty() ? data::LabelScale::of_range(0, 1)
                                 : data::LabelScale::of_range(range.numbers[0], range.numbers[1]);
  }
  const auto [low, high] = std::minmax_element(labels.begin(), labels.end());
  if (range.numbers.empty()) {
    if (*low < *high) return data::LabelScale::of_range(*low, *high);
    throw core::Error(core::ExitCode::data, "[task] range = \"labels\": all training labels are " +
                                                core::format_number(*low) + ", which is no range. Give two numbers.");
  }
  const double first = range.numbers[0], last = range.numbers[1];
  if (*low < static_cast<float>(first) || *high > static_cast<float>(last)) {
    throw core::Error(core::ExitCode::input, "the training data have the label " +
                                                 core::format_number(*low < static_cast<float>(first) ? *low : *high) +
                                                 ", which lies outside [task] range = [" + core::format_number(first) +
                                                 ", " + core::format_number(last) +
                                                 "]: widen the range, or remove such rows.");
  }
  return data::LabelScale::of_range(first, last);
}

constexpr std::size_t max_levels = 1000, max_shown_levels = 40;

}  // namespace

std::optional<std::array<double, 2>> exported_range(const data::LabelScale& scale) {
  return scale.bounded ? std::optional(std::array{scale.low(), scale.high()}) : std::nullopt;
}

data::LabelScale evaluation_label_scale(const config::Config& input, const model::ModelConfig& config) {
  if (!has_values(input)) return {};
  const std::vector<double> given = input.task.list(tasks::range_key).numbers;
  const auto& stated = config.prediction_range;
  if (stated && !given.empty() && (given[0] != stated->front() || given[1] != stated->back())) {
    throw core::Error(core::ExitCode::input, "[task] range is " + range_text(given[0], given[1]) +
                                                 ", but the model was trained with " +
                                                 range_text(stated->front(), stated->back()) +
                                                 ", as prediction_range in its config.json says: remove range.");
  }
  if (stated) return data::LabelScale::of_range(stated->front(), stated->back());
  return given.empty() ? data::LabelScale() : data::LabelScale::of_range(given[0], given[1]);
}

std::vector<float> value_levels(const config::Task& task, std::span<const float> train_labels) {
  const config::WordOrNumbers given = task.list(tasks::levels_key);
  if (given.word.empty()) return {given.numbers.begin(), given.numbers.end()};
  std::vector<float> levels(train_labels.begin(), train_labels.end());
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  if (levels.size() <= max_levels) return levels;
  throw core::Error(core::ExitCode::data, "[task] levels = \"labels\" is for at most " + core::with_commas(max_levels) +
                                              " levels, but the training labels have " +
                                              core::with_commas(std::ssize(levels)) +
                                              " values: give a list of levels, or remove the key.");
}

void require_levels(const config::Task& task, const data::ShardReader& reader) {
  const std::vector<double> listed = task.list(tasks::levels_key).numbers;
  if (listed.empty()) return;
  const std::vector<float> levels(listed.begin(), listed.end());
  for (const float label : reader.values()) {
    const float level = levels[metrics::nearest_level(levels, label)];
    constexpr float roundings = 1e-6f;  // a label is the nearest number in single precision to what its file says
    if (std::abs(level - label) <= roundings * std::abs(label)) continue;
    throw core::Error(core::ExitCode::input, "the data have the label " + core::format_number(label) +
                                                 ", which is none of [task] levels: add it there, or prepare the data "
                                                 "with the right labels.");
  }
}

std::string levels_text(std::span<const float> levels) {
  std::string text;
  for (std::size_t i = 0; i < std::min(levels.size(), max_shown_levels); ++i) {
    text += (i == 0 ? "levels " : ", ") + core::format_number(levels[i]);
  }
  return text + (levels.size() > max_shown_levels ? ", …" : "");
}

data::LabelScale training_label_scale(const config::Config& input, const data::ShardReader& train) {
  if (const config::WordOrNumbers range = input.task.list(tasks::range_key); has_values(input) && range.has_value()) {
    return range_scale(range, train.values());
  }
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
  if (scale.bounded) {
    return "squared error of predictions within " + range_text(scale.low(), scale.high()) +
           ", both scaled to 0 … 1 (task.range)";
  }
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

void head_into_training_unit(const data::LabelScale& scale, const std::string& classifier,
                             const std::vector<std::string>& fresh, core::ParameterStore& parameters) {
  if (scale.is_identity()) return;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    const auto part = head_part(classifier, slice.name);
    if (!part || std::find(fresh.begin(), fresh.end(), slice.name) != fresh.end()) continue;
    const std::span<float> values = parameters.change_values().subspan(static_cast<std::size_t>(slice.offset),
                                                                       static_cast<std::size_t>(slice.size));
    std::vector<float> staging(values.size());
    core::copy_to_host(std::span<const float>(values), std::span<float>(staging));
    data::unfold_from_head(scale, *part, staging);
    core::copy_to_device(std::span<const float>(staging), values);
  }
}

std::span<const float> head_in_labels_unit(const data::LabelScale& scale, const std::string& classifier,
                                           const std::string& name, std::span<const float> values,
                                           std::vector<float>& folded) {
  const auto part = head_part(classifier, name);
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
