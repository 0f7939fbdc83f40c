#include "bert_hpc/metrics/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bert_hpc/metrics/correlation.hpp"

namespace bert_hpc::metrics {

double roc_auc(std::span<const double> scores, std::span<const std::uint8_t> positive) {
  constexpr double undefined = std::numeric_limits<double>::quiet_NaN();
  if (std::any_of(scores.begin(), scores.end(), [](double score) { return std::isnan(score); })) return undefined;
  const std::vector<double> rank = ranks_of(scores);
  double positives = 0, ranks = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (positive[i] == 0) continue;
    positives += 1;
    ranks += rank[i];
  }
  const double negatives = static_cast<double>(scores.size()) - positives;
  if (positives == 0 || negatives == 0) return undefined;
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

double label_ranking_precision(std::span<const float> scores, std::span<const std::uint8_t> own) {
  if (std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); })) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto all_own = static_cast<std::size_t>(std::count(own.begin(), own.end(), 1));
  if (all_own == 0 || all_own == own.size()) return 1.0;
  // As scikit-learn: of each own name in turn. Samples have few names of their own, so that counting beats sorting.
  double sum = 0;
  for (std::size_t n = 0; n < own.size(); ++n) {
    if (own[n] != 1) continue;
    std::int64_t at_least = 0, own_at_least = 0;
    for (std::size_t other = 0; other < scores.size(); ++other) {
      const bool counts = scores[other] >= scores[n];
      at_least += counts;
      own_at_least += counts && own[other] == 1;
    }
    sum += static_cast<double>(own_at_least) / static_cast<double>(at_least);
  }
  return sum / static_cast<double>(all_own);
}

}  // namespace bert_hpc::metrics
