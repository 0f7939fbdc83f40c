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

}  // namespace

bool PredictionRange::is_unlimited() const {
  return std::isinf(low) && std::isinf(high);
}

double output_of(double probability) {
  return std::log(probability / (1 - probability));
}

std::optional<std::array<double, 2>> exported_range(const data::LabelScale& scale) {
  return scale.bounded ? std::optional(std::array{scale.low(), scale.high()}) : std::nullopt;
}

std::string unit_difference(const data::LabelScale& there, const data::LabelScale& here) {
  if (there == here) return {};
  return "the labels' unit: " + unit_text(there) + " there, " + unit_text(here) + " here";
}

void require_foldable(const data::LabelScale& scale, const layers::HeadSettings& head) {
  if (scale.is_identity() || scale.bounded || head.classifier_bias) return;
  throw core::Error(
      core::ExitCode::input,
      "[task] standardize = true trains on labels whose mean is 0, and the exported model's bias adds the "
      "labels' mean; the output layer \"" +
          head.classifier + "\" of this model has no bias: set standardize = false, or range.");
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

}  // namespace bert_hpc::objectives
