#include "bert_hpc/metrics/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
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
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  double sum = 0;
  std::size_t own_so_far = 0;
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    const std::size_t before = own_so_far;
    while (end < order.size() && scores[order[end]] == scores[order[first]]) own_so_far += own[order[end++]];
    sum += static_cast<double>((own_so_far - before) * own_so_far) / static_cast<double>(end);
  }
  return sum / static_cast<double>(all_own);
}

}  // namespace bert_hpc::metrics
