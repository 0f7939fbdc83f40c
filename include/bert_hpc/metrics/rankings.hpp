// What the metrics of rankings are made of.
#pragma once

#include "bert_hpc/metrics/metric.hpp"

namespace bert_hpc::metrics {

/// Sums over queries, all NaN if a score is.
struct RankingSums {
  // Of queries that are judged by their ranking:
  double queries = 0, average_precision = 0, reciprocal_rank = 0, reciprocal_rank_at_10 = 0, first_right = 0,
         gain_at_10 = 0, recall_at_10 = 0, recall_at_100 = 0;
  // Of all queries: those whose best candidate reaches the threshold; of them those where it is relevant; those that
  // have a relevant candidate; the F1 with the threshold that suits best, and that threshold.
  double answered = 0, right = 0, answerable = 0, best_f1 = 0, best_threshold = 0;

  static constexpr std::size_t count = 13;
  template <class Sum, class Visit>
  static void visit(Sum& s, const Visit& each) {
    for (auto* value :
         {&s.queries, &s.average_precision, &s.reciprocal_rank, &s.reciprocal_rank_at_10, &s.first_right, &s.gain_at_10,
          &s.recall_at_10, &s.recall_at_100, &s.answered, &s.right, &s.answerable, &s.best_f1, &s.best_threshold}) {
      each(*value);
    }
  }
  static RankingSums from(ConstSums sums) {
    RankingSums s;
    std::size_t i = 0;
    visit(s, [&](double& value) { value = sums[i++]; });
    return s;
  }
  void to(Sums sums) const {
    std::size_t i = 0;
    visit(*this, [&](const double& value) { sums[i++] = value; });
  }
};

}  // namespace bert_hpc::metrics
