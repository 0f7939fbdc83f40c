#include "bert_hpc/objectives/output_rules.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::objectives {
namespace {

/// The part of a regression's head that a parameter of this name is.
std::optional<data::HeadPart> head_part(const std::string& classifier, const std::string& name) {
  if (name == classifier + ".weight") return data::HeadPart::weight;
  if (name == classifier + ".bias") return data::HeadPart::bias;
  return std::nullopt;
}

}  // namespace

bool PredictionRange::is_unlimited() const {
  return std::isinf(low) && std::isinf(high);
}

double output_of(double probability) {
  return std::log(probability / (1 - probability));
}

std::optional<std::array<double, 2>> exported_range(const data::LabelScales& scales) {
  return is_bounded(scales) ? std::optional(std::array{scales[0].low(), scales[0].high()}) : std::nullopt;
}

std::string unit_text(const data::LabelScales& scales) {
  std::ostringstream text;
  text.precision(17);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const data::LabelScale& scale = scales[i];
    text << (i == 0 ? "" : "; ");
    if (scale.bounded) {
      text << "the range " << scale.low() << " … " << scale.high();
    } else {
      text << "mean " << scale.mean << ", deviation " << scale.deviation;
    }
  }
  return text.str();
}

std::string unit_difference(const std::string& there, const std::string& here) {
  if (there == here) return {};
  const auto shown = [](const std::string& unit) { return unit.empty() ? "labels as they are" : unit; };
  return "the labels' unit: " + shown(there) + " there, " + shown(here) + " here";
}

void require_foldable(const data::LabelScales& scales, const layers::HeadSettings& head) {
  if (scales.empty() || is_bounded(scales) || head.classifier_bias) return;
  throw core::Error(
      core::ExitCode::input,
      "[task] standardize = true trains on labels whose mean is 0, and the exported model's bias adds the "
      "labels' mean; the output layer \"" +
          head.classifier + "\" of this model has no bias: set standardize = false, or range.");
}

void head_into_training_unit(const data::LabelScales& scales, const std::string& classifier,
                             const std::vector<std::string>& fresh, core::ParameterStore& parameters) {
  if (scales.empty()) return;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    const auto part = head_part(classifier, slice.name);
    if (!part || std::find(fresh.begin(), fresh.end(), slice.name) != fresh.end()) continue;
    const std::span<float> values = parameters.change_values().subspan(static_cast<std::size_t>(slice.offset),
                                                                       static_cast<std::size_t>(slice.size));
    std::vector<float> staging(values.size());
    core::copy_to_host(std::span<const float>(values), std::span<float>(staging));
    data::unfold_from_head(scales, *part, 0, slice.size, staging);
    core::copy_to_device(std::span<const float>(staging), values);
  }
}

std::span<const float> head_in_labels_unit(const data::LabelScales& scales, const std::string& classifier,
                                           const ParameterPart& part, std::vector<float>& folded) {
  const auto kind = head_part(classifier, part.name);
  if (!kind || scales.empty()) return part.values;
  folded.assign(part.values.begin(), part.values.end());
  data::fold_into_head(scales, *kind, part.begin, part.size, folded);
  return folded;
}

std::span<const float> outputs_in_labels_unit(const data::LabelScales& scales, const PredictionRange& range,
                                              std::span<const float> outputs, std::vector<float>& converted) {
  if (scales.empty() && range.is_unlimited()) return outputs;
  converted.assign(outputs.begin(), outputs.end());
  for (std::size_t i = 0; i < converted.size(); ++i) {
    float& output = converted[i];
    if (!scales.empty()) output = scales[i % scales.size()].in_labels_unit(output);
    output = std::clamp(output, range.low, range.high);  // NaN stays
  }
  return converted;
}

}  // namespace bert_hpc::objectives
