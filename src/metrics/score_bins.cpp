#include "bert_hpc/metrics/score_bins.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bert_hpc::metrics {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

/// The probability of a logit, never 0 or 1, because both would decide alike for all.
double probability(double logit) {
  constexpr double least = std::numeric_limits<float>::min(), most = 1 - std::numeric_limits<float>::epsilon();
  return std::clamp(1 / (1 + std::exp(-logit)), least, most);
}

}  // namespace

std::size_t score_bins(std::size_t labels) {
  constexpr std::size_t min_bins = 1024, max_bins = 65536;
  const std::size_t bins = max_kept_scores / 2 / std::max(labels, std::size_t{1});
  return bins < min_bins ? 0 : std::min(bins, max_bins);
}

std::size_t bin_of(double score, std::size_t bins) {
  const double bounded = std::isinf(score) ? std::copysign(1.0, score) : score / (1 + std::abs(score));  // in [-1, 1]
  const auto bin = static_cast<std::size_t>((bounded + 1) / 2 * static_cast<double>(bins));
  return std::min(bin, bins - 1);
}

void count_score(double score, std::span<double> counts) {
  if (std::isnan(score)) {
    counts[0] = undefined;
  } else {
    counts[bin_of(score, counts.size())] += 1;
  }
}

double bin_begin(std::size_t bin, std::size_t bins) {
  const double bounded = 2 * static_cast<double>(bin) / static_cast<double>(bins) - 1;
  return bounded / (1 - std::abs(bounded));
}

double roc_auc_of_bins(std::span<const double> negatives, std::span<const double> positives) {
  double below = 0, all_positives = 0, pairs = 0;  // negatives in lower bins; pairs in the right order
  for (std::size_t bin = 0; bin < negatives.size(); ++bin) {
    pairs += positives[bin] * (below + negatives[bin] / 2);
    below += negatives[bin];
    all_positives += positives[bin];
  }
  return below == 0 || all_positives == 0 ? undefined : pairs / (below * all_positives);
}

BestThreshold best_threshold_of_bins(std::span<const double> absent, std::span<const double> present) {
  double there = 0;
  for (const double count : present) there += count;
  if (!(there > 0)) return {undefined, undefined};
  BestThreshold best{.probability = undefined, .f1 = -1};
  double hits = 0, decided = 0;
  for (std::size_t bin = present.size(); bin-- > 0;) {
    hits += present[bin];
    decided += present[bin] + absent[bin];
    if (std::isnan(decided)) return {undefined, undefined};
    const double f1 = 2 * hits / (there + decided);
    if (f1 > best.f1) best = {probability(bin_begin(bin, present.size())), f1};
  }
  return best;
}

}  // namespace bert_hpc::metrics
