// How well the probability of the predicted class says how often the prediction is right. Sums: for each bin of
// probabilities how many predictions it has, the sum of their probabilities, and how many are right. The sums are
// exact, so that they do not depend on the order of the samples: a probability above 1/15 is a multiple of 2⁻²⁷.
#include <algorithm>
#include <cmath>

#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

constexpr std::int64_t bins = 15;  // of equal width, as in Guo et al.

enum Sum : std::size_t { predictions, probabilities, hits, sums_of_a_bin };

std::int64_t size(const EvaluatedSet&) {
  return bins * sums_of_a_bin;
}

/// The bin m, from 0, with m / bins < probability <= (m + 1) / bins. The product of a float and 15 is exact in double.
std::size_t bin_of(float probability) {
  if (std::isnan(probability)) return 0;
  const double bin = std::ceil(static_cast<double>(probability) * static_cast<double>(bins)) - 1;
  return static_cast<std::size_t>(std::clamp(bin, 0.0, static_cast<double>(bins - 1)));
}

void add(const EvaluatedSet&, const Results& results, Sums sums) {
  for (std::size_t row = 0; row < results.confidences.size(); ++row) {
    const Sums bin = sums.subspan(bin_of(results.confidences[row]) * sums_of_a_bin, sums_of_a_bin);
    bin[predictions] += 1;
    bin[probabilities] += results.confidences[row];
    bin[hits] += results.batch.targets.get<core::ClassTargets>().data[row] == results.predicted[row];
  }
}

/// Expected calibration error: Σ over bins of |share of right predictions − mean probability|, weighted by the bin's
/// share of the predictions (Guo et al., "On calibration of modern neural networks", 2017, equation 3).
std::vector<double> values(const EvaluatedSet&, const LossSum&, ConstSums sums) {
  double all = 0, error = 0;
  for (std::size_t begin = 0; begin < sums.size(); begin += sums_of_a_bin) {
    const ConstSums bin = sums.subspan(begin, sums_of_a_bin);
    all += bin[predictions];
    error += std::abs(bin[hits] - bin[probabilities]);
  }
  return {all > 0 ? error / all : 0.0};
}

}  // namespace

const Family& calibration() {
  static const Family family = {
      .metrics = {{.name = "ece", .label = "expected calibration error", .larger_is_better = false, .in_log = false}},
      .reads_predicted = true,
      .reads_confidences = true,
      .size = size,
      .add = add,
      .values = values};
  return family;
}

}  // namespace bert_hpc::metrics
