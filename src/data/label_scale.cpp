#include "bert_hpc/data/label_scale.hpp"

#include <algorithm>
#include <cmath>

namespace bert_hpc::data {

float LabelScale::standardized(float label) const {
  const auto standardized = static_cast<float>((static_cast<double>(label) - mean) / deviation);
  return bounded ? std::clamp(standardized, 0.0f, 1.0f) : standardized;
}

float LabelScale::in_labels_unit(float output) const {
  const auto number = static_cast<double>(output);
  return static_cast<float>(std::fma(deviation, bounded ? 1 / (1 + std::exp(-number)) : number, mean));
}

LabelScale fit_label_scale(std::span<const float> labels) {
  const auto count = static_cast<double>(labels.size());
  // Summed from the first label on, so that the mean of equal labels is that label to the bit, and that labels far from
  // 0 (years) lose no digits.
  const double first = labels.front();
  double sum = 0;
  for (const float label : labels) sum += static_cast<double>(label) - first;
  LabelScale scale;
  scale.mean = first + sum / count;
  double squares = 0;
  for (const float label : labels) {
    const double difference = static_cast<double>(label) - scale.mean;
    squares = std::fma(difference, difference, squares);  // fma by name: a compiler's choice must not change bits
  }
  if (!all_equal(labels)) scale.deviation = std::sqrt(squares / count);
  return scale;
}

bool all_equal(std::span<const float> labels) {
  return std::all_of(labels.begin(), labels.end(), [&](float label) { return label == labels.front(); });
}

void fold_into_head(const LabelScale& scale, HeadPart part, std::span<float> values) {
  if (scale.is_identity() || scale.bounded) return;
  const double shift = part == HeadPart::bias ? scale.mean : 0.0;
  for (float& value : values) {
    value = static_cast<float>(std::fma(scale.deviation, static_cast<double>(value), shift));
  }
}

void unfold_from_head(const LabelScale& scale, HeadPart part, std::span<float> values) {
  if (scale.is_identity() || scale.bounded) return;
  const double shift = part == HeadPart::bias ? scale.mean : 0.0;
  for (float& value : values) value = static_cast<float>((static_cast<double>(value) - shift) / scale.deviation);
}

}  // namespace bert_hpc::data
