// Tokens that are guessed: how many are right. Sum: the right ones.
#include <cmath>

#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

std::int64_t size(const EvaluatedSet&) {
  return 1;
}

void add(const EvaluatedSet&, const Results& results, Sums sums) {
  for (std::size_t row = 0; row < results.predicted.size(); ++row) {
    if (results.batch.targets.get<core::ClassTargets>().data[row] == results.predicted[row]) sums[0] += 1;
  }
}

std::vector<double> values(const EvaluatedSet&, const LossSum& loss, ConstSums sums) {
  return {loss.targets > 0 ? sums[0] / loss.targets : 0.0, std::exp(loss.mean())};
}

}  // namespace

const Family& token_counts() {
  static const Family family = {.metrics = {{"accuracy", ""}, {"perplexity", "", false}},
                                .reads_predicted = true,
                                .size = size,
                                .add = add,
                                .values = values};
  return family;
}

}  // namespace bert_hpc::metrics
