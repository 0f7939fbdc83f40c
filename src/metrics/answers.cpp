// Answers to questions, by SQuAD's evaluate-v2.0.py: in percent of the questions. Sums: answer_sums in their order, of
// all questions at once; the rank that makes the answers adds them.
#include "bert_hpc/metrics/answers.hpp"

#include <cstdint>
#include <limits>
#include <optional>

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
          percent(s.answered, s.has + s.no),
          s.has + s.no,
          percent(s.has_exact, s.has),
          percent(s.has_f1, s.has),
          percent(s.no_exact, s.no),
          s.exact.percent,
          s.f1.percent,
          s.exact.threshold,
          s.f1.threshold};
}

/// Set if the model answers no question, although some have an answer.
std::optional<OneAnswer> one_answer(const EvaluatedSet&, ConstSums sums) {
  const AnswerSums s = AnswerSums::from(sums);
  if (s.answered > 0 || s.has == 0) return std::nullopt;
  return OneAnswer{.samples = static_cast<std::int64_t>(s.has + s.no), .answerable = static_cast<std::int64_t>(s.has)};
}

}  // namespace

const Family& answers() {
  static const Family family = {
      .metrics =
          {{"exact", "exact"},
           {"f1", "f1"},
           {.name = "answered", .label = "percent answered", .is_goal = false, .percent_of = "questions"},
           {.name = "questions", .label = "", .in_log = false, .is_goal = false},
           {.name = "has_answer_exact", .label = "exact (answerable questions)", .in_log = false},
           {.name = "has_answer_f1", .label = "f1 (answerable questions)", .in_log = false},
           {.name = "no_answer_exact", .label = "exact (unanswerable questions)", .in_log = false},
           {.name = "best_exact", .label = "best exact", .in_log = false},
           {.name = "best_f1", .label = "best f1", .in_log = false},
           {.name = "best_exact_threshold", .label = "threshold of best exact", .in_log = false, .is_goal = false},
           {.name = "best_f1_threshold", .label = "threshold of best f1", .in_log = false, .is_goal = false}},
      .size = size,
      .values = values,
      .one_answer = one_answer};
  return family;
}

}  // namespace bert_hpc::metrics
