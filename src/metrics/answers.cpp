// Answers to questions, by SQuAD's evaluate-v2.0.py: in percent of the questions. Sums: answer_sums in their order, of
// all questions at once; the rank that makes the answers adds them.
#include "bert_hpc/metrics/answers.hpp"

#include <limits>

#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

std::int64_t size(const EvaluatedSet&) {
  return static_cast<std::int64_t>(AnswerSums::count);
}

double percent(double sum, double questions) {
  return questions > 0 ? 100.0 * sum / questions : std::numeric_limits<double>::quiet_NaN();
}

std::vector<double> values(const EvaluatedSet&, const LossSum&, ConstSums sums) {
  const AnswerSums s = AnswerSums::from(sums);
  return {percent(s.has_exact + s.no_exact, s.has + s.no),
          percent(s.has_f1 + s.no_f1, s.has + s.no),
          percent(s.has_exact, s.has),
          percent(s.has_f1, s.has),
          percent(s.no_exact, s.no),
          s.exact.percent,
          s.f1.percent,
          s.exact.threshold,
          s.f1.threshold};
}

}  // namespace

const Family& answers() {
  static const Family family = {
      .metrics =
          {{"exact", "exact"},
           {"f1", "f1"},
           {.name = "has_answer_exact", .label = "exact where answered", .in_log = false},
           {.name = "has_answer_f1", .label = "f1 where answered", .in_log = false},
           {.name = "no_answer_exact", .label = "exact without answer", .in_log = false},
           {.name = "best_exact", .label = "best exact", .in_log = false},
           {.name = "best_f1", .label = "best f1", .in_log = false},
           {.name = "best_exact_threshold", .label = "threshold of best exact", .in_log = false, .is_goal = false},
           {.name = "best_f1_threshold", .label = "threshold of best f1", .in_log = false, .is_goal = false}},
      .size = size,
      .values = values};
  return family;
}

}  // namespace bert_hpc::metrics
