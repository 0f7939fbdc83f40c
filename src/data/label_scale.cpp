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

namespace {

/// Calls change(value, scale, shift) for each of the values.
template <class Change>
void for_each_output(const LabelScales& scales, HeadPart part, std::int64_t begin, std::int64_t size,
                     std::span<float> values, const Change& change) {
  if (scales.empty() || is_bounded(scales)) return;
  const std::int64_t columns = size / std::ssize(scales);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const LabelScale& scale = scales[static_cast<std::size_t>((begin + static_cast<std::int64_t>(i)) / columns)];
    const double shift = part == HeadPart::bias ? scale.mean : 0.0;
    values[i] = static_cast<float>(change(static_cast<double>(values[i]), scale.deviation, shift));
  }
}

}  // namespace

void fold_into_head(const LabelScales& scales, HeadPart part, std::int64_t begin, std::int64_t size,
                    std::span<float> values) {
  for_each_output(scales, part, begin, size, values,
                  [](double value, double deviation, double shift) { return std::fma(deviation, value, shift); });
}

void unfold_from_head(const LabelScales& scales, HeadPart part, std::int64_t begin, std::int64_t size,
                      std::span<float> values) {
  for_each_output(scales, part, begin, size, values,
                  [](double value, double deviation, double shift) { return (value - shift) / deviation; });
}

}  // namespace bert_hpc::data
