// Two classes, seen as a ranking by how much more likely the second is. Each sample's score has a sum of its own, 0 on
// the ranks that did not make it, so that the figure depends on the samples alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bert_hpc/metrics/correlation.hpp"
#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

std::int64_t size(const EvaluatedSet& set) {
  return set.outputs == 2 ? static_cast<std::int64_t>(set.classes.size()) : 0;
}

/// The score is the difference of the two logits, which grows with the second class's probability.
void add(const EvaluatedSet&, const Results& results, Sums scores) {
  if (scores.empty()) return;
  const core::MicroBatch& batch = results.batch;
  for (std::size_t row = 0; 2 * row < results.outputs.size(); ++row) {
    const auto sample = static_cast<std::size_t>(batch.sample[batch.targets.rows.sequence[row]]);
    scores[sample] = static_cast<double>(results.outputs[2 * row + 1]) - results.outputs[2 * row];
  }
}

/// The area under the ROC curve: the share of pairs of one sample of each class in which the second class's has the
/// larger score, equal scores counting half (Hanley and McNeil 1982). NaN where a class is absent or a score is NaN.
std::vector<double> values(const EvaluatedSet& set, const LossSum&, ConstSums scores) {
  if (std::any_of(scores.begin(), scores.end(), [](double score) { return std::isnan(score); })) return {undefined};
  const std::vector<double> rank = ranks_of(scores);
  double positives = 0, ranks = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (set.classes[i] != 1) continue;
    positives += 1;
    ranks += rank[i];
  }
  const double negatives = static_cast<double>(scores.size()) - positives;
  if (positives == 0 || negatives == 0) return {undefined};
  return {(ranks - positives * (positives + 1) / 2) / (positives * negatives)};
}

/// A score, a rank and the order.
std::int64_t bytes(const EvaluatedSet& set) {
  return size(set) * 3 * std::int64_t{sizeof(double)};
}

}  // namespace

const Family& binary_ranking() {
  static const Family family = {.metrics = {{.name = "roc_auc", .label = "ROC AUC", .in_log = false, .outputs = 2}},
                                .reads_outputs = true,
                                .size = size,
                                .add = add,
                                .values = values,
                                .bytes = bytes};
  return family;
}

}  // namespace bert_hpc::metrics
