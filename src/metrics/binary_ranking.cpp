// Two classes, seen as a ranking by how much more likely the second is. Each sample's score has a sum of its own, 0 on
// the ranks that did not make it; of very many samples, the sums count those in each bin: of the first class, then of
// the second. So the figure depends on the samples alone.
#include "bert_hpc/metrics/ranking.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/metrics/score_bins.hpp"

namespace bert_hpc::metrics {
namespace {

bool keeps_scores(const EvaluatedSet& set) {
  return set.classes.size() <= max_kept_scores;
}

std::int64_t size(const EvaluatedSet& set) {
  if (set.outputs != 2) return 0;
  return static_cast<std::int64_t>(keeps_scores(set) ? set.classes.size() : 2 * score_bins(1));
}

/// The score is the difference of the two logits, which grows with the second class's probability.
void add(const EvaluatedSet& set, const Results& results, Sums sums) {
  if (sums.empty()) return;
  const core::MicroBatch& batch = results.batch;
  for (std::size_t row = 0; 2 * row < results.outputs.size(); ++row) {
    const auto sample = static_cast<std::size_t>(batch.sample[batch.targets.rows.sequence[row]]);
    const double score = static_cast<double>(results.outputs[2 * row + 1]) - results.outputs[2 * row];
    if (keeps_scores(set)) {
      sums[sample] = score;
      continue;
    }
    const std::size_t bins = sums.size() / 2;
    count_score(score, set.classes[sample] == 1 ? sums.last(bins) : sums.first(bins));
  }
}

std::vector<double> values(const EvaluatedSet& set, const LossSum&, ConstSums sums) {
  if (!keeps_scores(set)) return {roc_auc_of_bins(sums.first(sums.size() / 2), sums.last(sums.size() / 2))};
  std::vector<std::uint8_t> positive;
  for (const std::int32_t label : set.classes) positive.push_back(label == 1);
  return {roc_auc(sums, positive)};
}

/// A score, a rank and the order, or the bins.
std::int64_t bytes(const EvaluatedSet& set) {
  return size(set) * (keeps_scores(set) ? 3 : 1) * std::int64_t{sizeof(double)};
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
