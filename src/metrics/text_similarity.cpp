// Embeddings of texts. With scores: Pearson's and Spearman's correlation with them of the similarities of pairs, as the
// STS benchmark's scorers have them, or of the differences of the similarities to a positive and to a negative. Sums
// are these numbers, of all rows at once. Without: how the positive of an anchor ranks among the candidates of the
// data set, or of its block of rows. Sums: of all anchors. With negatives: how often a positive is nearer than a
// negative of its row. The rank that has the embeddings of all texts adds them.
#include <cmath>
#include <limits>

#include "bert_hpc/metrics/correlation.hpp"
#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

/// Number of rows with scores of a data set. Each text of a row holds its score.
std::int64_t rows(const EvaluatedSet& set) {
  return static_cast<std::int64_t>(set.values.size()) / set.row_texts;
}

std::vector<double> correlations(const EvaluatedSet& set, const LossSum&, ConstSums compared) {
  if (set.values.empty()) return {};
  std::vector<double> scores;
  const auto texts = static_cast<std::size_t>(set.row_texts);
  for (std::size_t i = 0; i < compared.size(); ++i) scores.push_back(set.values[texts * i]);
  const double linear = pearson(scores, compared);  // NaN, too, if a similarity is, which has no rank
  return {linear, std::isnan(linear) ? undefined : pearson(ranks_of(scores), ranks_of(compared))};
}

/// A number that is compared, a score, two ranks and their order.
std::int64_t bytes(const EvaluatedSet& set) {
  return rows(set) * 5 * std::int64_t{sizeof(double)};
}

/// The anchors, and of these the sums of each metric.
constexpr std::int64_t sums_of_ranks = 6;

std::vector<double> ranks(const EvaluatedSet& set, const LossSum&, ConstSums sums) {
  if (!set.values.empty()) return {};
  std::vector<double> means;
  for (const double sum : sums.subspan(1)) means.push_back(sums[0] == 0 ? undefined : sum / sums[0]);
  return means;
}

enum TripletSum : std::size_t { triplets, correct, sums_of_triplets };

std::vector<double> shares(const EvaluatedSet&, const LossSum&, ConstSums sums) {
  if (sums[triplets] == 0) return {};
  return {sums[correct] / sums[triplets]};
}

}  // namespace

const Family& text_similarity() {
  static const Family family = {
      .metrics = {{"pearson", ""}, {"spearman", ""}}, .size = rows, .values = correlations, .bytes = bytes};
  return family;
}

const Family& batch_ranks() {
  static const Family family = {.metrics = {{"accuracy", ""},
                                            {"mrr", "MRR"},
                                            {"mrr_at_10", "MRR@10"},
                                            {"ndcg_at_10", "nDCG@10"},
                                            {.name = "recall_at_10", .label = "recall@10", .in_log = false}},
                                .size = [](const EvaluatedSet&) { return sums_of_ranks; },
                                .values = ranks};
  return family;
}

const Family& text_triplets() {
  static const Family family = {.metrics = {{"triplet_accuracy", ""}},
                                .size = [](const EvaluatedSet&) { return std::int64_t{sums_of_triplets}; },
                                .values = shares};
  return family;
}

}  // namespace bert_hpc::metrics
