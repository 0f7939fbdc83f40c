#include "bert_hpc/objectives/ranking_scorer.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::objectives {
namespace {

constexpr std::size_t short_cut = 10, long_cut = 100;

/// log Σ exp(scores) less the mean score of what is relevant: the loss of ops/listwise_cross_entropy.hpp.
double list_loss(std::span<const float> scores, std::span<const std::int32_t> levels, double relevant) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double total = 0, right = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    total += std::exp(scores[i] - largest);
    if (levels[i] > 0) right += largest - scores[i];
  }
  return std::log(total) + right / relevant;
}

}  // namespace

RankingScorer::RankingScorer(const data::ShardReader& reader, std::mutex& hdf5, const RankingSettings& settings)
    : reader_(reader), groups_(reader, hdf5), settings_(settings) {}

void RankingScorer::add(float score) {
  if (scores_.empty()) core::require(groups_.next(), "each sample is in a group");
  scores_.push_back(score);
  if (std::ssize(scores_) == groups_.end() - groups_.begin()) finish_query();
}

void RankingScorer::finish_query() {
  const std::span<const std::int32_t> all = reader_.levels();
  if (all.empty()) return scores_.clear();
  const auto levels = all.subspan(static_cast<std::size_t>(groups_.begin()), scores_.size());
  const data::GroupTexts& texts = groups_.group();
  candidates_.clear();
  ideal_.assign(texts.further_levels.begin(), texts.further_levels.end());
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    is_nan_ = is_nan_ || std::isnan(scores_[i]);
    candidates_.push_back({texts.candidates[i], scores_[i], levels[i]});
    ideal_.push_back(levels[i]);
  }
  const auto best = std::max_element(scores_.begin(), scores_.end()) - scores_.begin();
  answers_.push_back({scores_[static_cast<std::size_t>(best)], levels[static_cast<std::size_t>(best)] > 0});
  score::rank_candidates(candidates_);
  std::sort(ideal_.begin(), ideal_.end(), std::greater<>());
  ranked_.clear();
  for (const score::RankedCandidate& one : candidates_) ranked_.push_back(one.level);
  const auto is_relevant = [](std::int64_t level) { return level > 0; };
  const auto relevant = static_cast<double>(std::count_if(ideal_.begin(), ideal_.end(), is_relevant)),
             found = static_cast<double>(std::count_if(ranked_.begin(), ranked_.end(), is_relevant));
  if (found > 0 && settings_.has_list_loss) {
    loss_.sum += list_loss(scores_, levels, found);
    loss_.targets += 1;
  }
  scores_.clear();
  accumulators_.answerable += relevant > 0 ? 1 : 0;
  if (relevant == 0 && settings_.skips_unanswerable) return;
  accumulators_.queries += 1;
  accumulators_.average_precision += score::average_precision(ranked_, relevant);
  accumulators_.reciprocal_rank += score::reciprocal_rank(ranked_);
  accumulators_.reciprocal_rank_at_10 += score::reciprocal_rank(ranked_, short_cut);
  accumulators_.first_right += ranked_.front() > 0 ? 1 : 0;
  accumulators_.gain_at_10 += score::normalized_gain(ranked_, ideal_, short_cut);
  accumulators_.recall_at_10 += score::recall_at(ranked_, relevant, short_cut);
  accumulators_.recall_at_100 += score::recall_at(ranked_, relevant, long_cut);
}

void RankingScorer::finish(metrics::Sums sums) {
  core::require(scores_.empty() && !answers_.empty(), "all samples of all groups have scores");
  for (const score::TriggeredAnswer& answer : answers_) {
    if (!(answer.score >= settings_.threshold)) continue;
    accumulators_.answered += 1;
    accumulators_.right += answer.is_right ? 1 : 0;
  }
  if (is_nan_) {
    metrics::RankingSums::visit(accumulators_, [](double& sum) { sum = std::numeric_limits<double>::quiet_NaN(); });
  } else {
    const score::BestTriggering best = score::best_triggering(std::move(answers_), accumulators_.answerable);
    accumulators_.best_f1 = best.numbers.f1;
    accumulators_.best_threshold = best.threshold;
  }
  accumulators_.to(sums);
}

}  // namespace bert_hpc::objectives
