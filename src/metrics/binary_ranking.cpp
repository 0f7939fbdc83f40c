// Two classes, seen as a ranking by how much more likely the second is. Each sample's score has a sum of its own, 0 on
// the ranks that did not make it, so that the figure depends on the samples alone.
#include "bert_hpc/metrics/ranking.hpp"
#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

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

std::vector<double> values(const EvaluatedSet& set, const LossSum&, ConstSums scores) {
  std::vector<std::uint8_t> positive;
  for (const std::int32_t label : set.classes) positive.push_back(label == 1);
  return {roc_auc(scores, positive)};
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
