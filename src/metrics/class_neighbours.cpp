// Embeddings of texts with classes: which classes the nearest other texts have (Musgrave, Belongie and Lim, "A metric
// learning reality check", 2020). A text whose class has R other texts has three numbers: whether the nearest one is of
// its class, the share of its class among the R nearest, and the mean over k from 1 to R of the share among the k
// nearest if the k-th is of its class, else 0. The rank that has the embeddings of all texts adds them.
#include <limits>

#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

/// The texts whose class has other texts; the sums of their three numbers.
enum Sum : std::size_t { texts, nearest, r_precision, average_precision, sums };

std::vector<double> means(const EvaluatedSet&, const LossSum&, ConstSums of) {
  constexpr double undefined = std::numeric_limits<double>::quiet_NaN();
  if (of[texts] == 0) return {undefined, undefined, undefined};
  return {of[nearest] / of[texts], of[r_precision] / of[texts], of[average_precision] / of[texts]};
}

}  // namespace

const Family& class_neighbours() {
  static const Family family = {
      .metrics = {{"precision_at_1", ""}, {"r_precision", "R-precision"}, {"map_at_r", "MAP@R"}},
      .size = [](const EvaluatedSet&) { return std::int64_t{sums}; },
      .values = means};
  return family;
}

}  // namespace bert_hpc::metrics
