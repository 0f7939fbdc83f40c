// The unit in which a regression trains. A new head predicts numbers near 0, and the usual learning rates move it by
// little: labels that lie elsewhere (band scores around 6.5, prices, years) would cost most of a short training. So the
// model trains on
//   standardized = (label − mean) / deviation
// with the mean and the population deviation of the training labels. Whatever leaves the program is in the labels' own
// unit: predictions, metrics, and the head of the exported model, whose weight and bias are folded:
//   output' = mean + deviation · (W x + b) = (deviation · W) x + (mean + deviation · b)
// With a range of labels ([task] range) mean is its low end and deviation its width. Then labels become numbers from 0
// to 1, outputs are logits of such numbers, and the head is exported as it is:
//   prediction = low + (high − low) · σ(W x + b)
//
// All functions are pure. fit() gives the same bits on every rank, layout and processor: it adds in the order of the
// labels, and its products and sums are rounded at fixed points.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bert_hpc::data {

struct LabelScale {
  double mean = 0, deviation = 1;  ///< in the labels' unit; deviation > 0
  bool bounded = false;            ///< outputs are logits, and predictions lie in [low(), high()]

  static LabelScale of_range(double low, double high) { return {low, high - low, true}; }
  double low() const { return mean; }               ///< where bounded
  double high() const { return mean + deviation; }  ///< where bounded

  bool is_identity() const { return mean == 0 && deviation == 1 && !bounded; }
  /// With a range, a label outside of it counts as the nearest end.
  float standardized(float label) const;
  /// A prediction of the model in training, in the labels' unit.
  float in_labels_unit(float output) const;

  bool operator==(const LabelScale&) const = default;
};

/// The unit of each output; none: labels as they are. Several are not bounded.
using LabelScales = std::vector<LabelScale>;

/// Whether outputs are logits.
inline bool is_bounded(const LabelScales& scales) {
  return !scales.empty() && scales.front().bounded;
}

/// Mean and deviation of the labels. Where all labels are equal, the deviation is 1, so that they become 0. `labels` is
/// finite and not empty.
LabelScale fit_label_scale(std::span<const float> labels);

bool all_equal(std::span<const float> labels);

/// The two parameters of a head, an output after the other.
enum class HeadPart { weight, bias };

/// In place: of a head in training to one in the labels' unit, as files hold it; and back. Bounded scales change
/// nothing. `values`: elements from `begin` on of a parameter of `size` elements, (outputs, columns).
void fold_into_head(const LabelScales& scales, HeadPart part, std::int64_t begin, std::int64_t size,
                    std::span<float> values);
void unfold_from_head(const LabelScales& scales, HeadPart part, std::int64_t begin, std::int64_t size,
                      std::span<float> values);

}  // namespace bert_hpc::data
