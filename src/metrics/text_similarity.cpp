// Embeddings of texts. With scores: Pearson's and Spearman's correlation of the cosines of pairs with them, as the STS
// benchmark's scorers have them. Sums are the cosines, of all pairs at once. Without: how the positive of an anchor
// ranks among the candidates of its block of rows. Sums: blocks' figures, of all anchors. The rank that has the
// embeddings of all texts adds them.
#include <cmath>
#include <limits>

#include "bert_hpc/metrics/correlation.hpp"
#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

/// Number of pairs of a data set. Both texts of a pair hold its score.
std::int64_t pairs(const EvaluatedSet& set) {
  return static_cast<std::int64_t>(set.values.size()) / 2;
}

std::vector<double> correlations(const EvaluatedSet& set, const LossSum&, ConstSums cosines) {
  if (set.values.empty()) return {};
  std::vector<double> scores;
  for (std::size_t i = 0; i < cosines.size(); ++i) scores.push_back(set.values[2 * i]);
  const double linear = pearson(scores, cosines);  // NaN, too, where a cosine is, which has no rank
  return {linear, std::isnan(linear) ? undefined : pearson(ranks_of(scores), ranks_of(cosines))};
}

/// A cosine, a score, two ranks and their order.
std::int64_t bytes(const EvaluatedSet& set) {
  return pairs(set) * 5 * std::int64_t{sizeof(double)};
}

enum Sum : std::size_t { anchors, first, reciprocal_ranks, sums_of_ranks };

std::vector<double> ranks(const EvaluatedSet& set, const LossSum&, ConstSums sums) {
  if (!set.values.empty()) return {};
  if (sums[anchors] == 0) return {undefined, undefined};
  return {sums[first] / sums[anchors], sums[reciprocal_ranks] / sums[anchors]};
}

}  // namespace

const Family& text_similarity() {
  static const Family family = {
      .metrics = {{"pearson", ""}, {"spearman", ""}}, .size = pairs, .values = correlations, .bytes = bytes};
  return family;
}

const Family& batch_ranks() {
  static const Family family = {.metrics = {{"accuracy", ""}, {"mrr", "MRR"}},
                                .size = [](const EvaluatedSet&) { return std::int64_t{sums_of_ranks}; },
                                .values = ranks};
  return family;
}

}  // namespace bert_hpc::metrics
