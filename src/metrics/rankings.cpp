// Rankings of queries' candidates, as trec_eval, ms_marco_eval.py and WikiQA's eval.py have them. Sums: RankingSums in
// their order, of all queries at once; the rank that makes the rankings adds them.
#include "bert_hpc/metrics/rankings.hpp"

#include <limits>

#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

std::int64_t size(const EvaluatedSet&) {
  return static_cast<std::int64_t>(RankingSums::count);
}

/// As WikiQA's eval.py, 0 of nothing.
double ratio(double part, double whole) {
  return whole == 0 ? 0.0 : part / whole;
}

std::vector<double> values(const EvaluatedSet&, const LossSum&, ConstSums sums) {
  const RankingSums s = RankingSums::from(sums);
  const auto mean = [&](double sum) {
    return s.queries == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / s.queries;
  };
  const double precision = ratio(s.right, s.answered), recall = ratio(s.right, s.answerable);
  return {mean(s.average_precision),
          mean(s.reciprocal_rank),
          mean(s.reciprocal_rank_at_10),
          mean(s.gain_at_10),
          mean(s.first_right),
          mean(s.recall_at_10),
          mean(s.recall_at_100),
          precision,
          recall,
          ratio(2.0 * precision * recall, precision + recall),
          s.best_f1,
          s.best_threshold};
}

}  // namespace

const Family& rankings() {
  static const Family family = {
      .metrics = {{"map", "MAP"},
                  {"mrr", "MRR"},
                  {"mrr_at_10", "MRR@10"},
                  {"ndcg_at_10", "nDCG@10"},
                  {.name = "precision_at_1", .label = "P@1", .in_log = false},
                  {.name = "recall_at_10", .label = "recall@10", .in_log = false},
                  {.name = "recall_at_100", .label = "recall@100", .in_log = false},
                  {.name = "precision", .label = "", .in_log = false},
                  {.name = "recall", .label = "", .in_log = false},
                  {.name = "f1", .label = "", .in_log = false},
                  {.name = "best_f1", .label = "best f1", .in_log = false},
                  {.name = "best_f1_threshold", .label = "threshold of best f1", .in_log = false, .is_goal = false}},
      .size = size,
      .values = values};
  return family;
}

}  // namespace bert_hpc::metrics
