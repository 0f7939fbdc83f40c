#include "bert_hpc/metrics/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

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

}  // namespace bert_hpc::metrics
