#include "bert_hpc/score/ranking.hpp"

#include <algorithm>
#include <cmath>

namespace bert_hpc::score {
namespace {

double ratio(double part, double whole) {
  return whole > 0.0 ? part / whole : 0.0;
}

/// Discounted cumulative gain of the first `cut` levels.
double gain(std::span<const std::int64_t> levels, std::size_t cut) {
  double sum = 0.0;
  for (std::size_t i = 0; i < std::min(cut, levels.size()); ++i) {
    if (levels[i] > 0) sum += static_cast<double>(levels[i]) / std::log2(static_cast<double>(i) + 2.0);
  }
  return sum;
}

}  // namespace

void rank_candidates(std::vector<RankedCandidate>& candidates) {
  std::sort(candidates.begin(), candidates.end(), [](const RankedCandidate& a, const RankedCandidate& b) {
    if (std::isnan(a.score) || std::isnan(b.score)) {
      if (std::isnan(a.score) != std::isnan(b.score)) return std::isnan(b.score);
      return a.id > b.id;
    }
    return a.score != b.score ? a.score > b.score : a.id > b.id;
  });
}

double average_precision(std::span<const std::int64_t> ranked, double relevant) {
  double found = 0.0, precisions = 0.0;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    if (ranked[i] <= 0) continue;
    found += 1.0;
    precisions += found / (static_cast<double>(i) + 1.0);
  }
  return ratio(precisions, relevant);
}

double reciprocal_rank(std::span<const std::int64_t> ranked, std::size_t cut) {
  for (std::size_t i = 0; i < std::min(cut, ranked.size()); ++i) {
    if (ranked[i] > 0) return 1.0 / (static_cast<double>(i) + 1.0);
  }
  return 0.0;
}

double normalized_gain(std::span<const std::int64_t> ranked, std::span<const std::int64_t> ideal, std::size_t cut) {
  return ratio(gain(ranked, cut), gain(ideal, cut));
}

double recall_at(std::span<const std::int64_t> ranked, double relevant, std::size_t cut) {
  double found = 0.0;
  for (std::size_t i = 0; i < std::min(cut, ranked.size()); ++i) found += ranked[i] > 0 ? 1.0 : 0.0;
  return ratio(found, relevant);
}

Triggering triggering(double right, double answered, double answerable) {
  Triggering numbers;
  if (answered > 0.0) numbers.precision = right / answered;
  if (answerable > 0.0) numbers.recall = right / answerable;
  const double both = numbers.precision + numbers.recall;
  if (both > 0.0) numbers.f1 = 2.0 * numbers.precision * numbers.recall / both;
  return numbers;
}

BestTriggering best_triggering(std::vector<TriggeredAnswer> answers, double answerable) {
  std::stable_sort(answers.begin(), answers.end(),
                   [](const TriggeredAnswer& a, const TriggeredAnswer& b) { return a.score > b.score; });
  BestTriggering best = {{}, answers.front().score};
  double right = 0.0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    right += answers[i].is_right ? 1.0 : 0.0;
    const bool is_cut = i + 1 == answers.size() || answers[i + 1].score < answers[i].score;
    if (!is_cut) continue;
    const Triggering here = triggering(right, static_cast<double>(i) + 1.0, answerable);
    if (here.f1 > best.numbers.f1) best = {here, answers[i].score};
  }
  return best;
}

}  // namespace bert_hpc::score
