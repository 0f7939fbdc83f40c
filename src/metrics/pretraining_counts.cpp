// Masked tokens that are guessed, and pairs of texts whose class is predicted beside them.
#include <cmath>

#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

/// Sums over the data set, of one kind of rows.
struct Counts {
  double rows = 0, right = 0, loss = 0;

  double mean(double sum) const { return rows > 0 ? sum / rows : 0.0; }
};
constexpr std::size_t per_kind = 3;

std::int64_t size(const EvaluatedSet&) {
  return 2 * per_kind;
}

Counts counts_at(ConstSums sums, std::size_t kind) {
  return {sums[kind * per_kind], sums[kind * per_kind + 1], sums[kind * per_kind + 2]};
}

void add(const EvaluatedSet&, const Results& results, Sums sums) {
  const core::Targets& targets = results.batch.targets;
  const std::int32_t* const classes = targets.get<core::ClassTargets>().data;
  const auto masked = static_cast<std::size_t>(targets.masked.rows.count);
  for (std::size_t row = 0; row < results.predicted.size(); ++row) {
    const std::size_t begin = row < masked ? 0 : per_kind;
    sums[begin] += 1;
    sums[begin + 1] += classes[row] == results.predicted[row] ? 1 : 0;
    sums[begin + 2] += static_cast<double>(results.losses[row]);
  }
}

double loss(ConstSums sums) {
  const Counts tokens = counts_at(sums, 0), pairs = counts_at(sums, 1);
  return tokens.mean(tokens.loss) + pairs.mean(pairs.loss);
}

std::vector<double> values(const EvaluatedSet&, const LossSum&, ConstSums sums) {
  const Counts tokens = counts_at(sums, 0), pairs = counts_at(sums, 1);
  const double of_tokens = tokens.mean(tokens.loss);
  return {tokens.mean(tokens.right), std::exp(of_tokens), of_tokens, pairs.mean(pairs.right), pairs.mean(pairs.loss)};
}

}  // namespace

const Family& pretraining_counts() {
  static const Family family = {.metrics = {{"accuracy", ""},
                                            {"perplexity", "", false},
                                            {"masked_lm_loss", "loss of masked tokens", false, false},
                                            {"pair_accuracy", "accuracy of pairs"},
                                            {"pair_loss", "loss of pairs", false}},
                                .reads_predicted = true,
                                .reads_losses = true,
                                .size = size,
                                .add = add,
                                .values = values,
                                .loss = loss};
  return family;
}

}  // namespace bert_hpc::metrics
