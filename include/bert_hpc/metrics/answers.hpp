// What the metrics of answers are made of.
#pragma once

#include "bert_hpc/metrics/metric.hpp"

namespace bert_hpc::metrics {

/// The best score that a threshold for "no answer" gives, and the threshold; NaN where predictions are never empty.
struct BestAnswers {
  double percent = 0, threshold = 0;
};

/// Questions with and without an answer; sums of their exact matches and F1; the best with a threshold; questions that
/// the model answers.
struct AnswerSums {
  double has = 0, has_exact = 0, has_f1 = 0, no = 0, no_exact = 0, no_f1 = 0;
  BestAnswers exact, f1;
  double answered = 0;

  static constexpr std::size_t count = 11;
  static AnswerSums from(ConstSums sums) {
    return {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], {sums[6], sums[7]}, {sums[8], sums[9]}, sums[10]};
  }
  void to(Sums sums) const {
    const double all[count] = {has,           has_exact,       has_f1,     no,           no_exact, no_f1,
                               exact.percent, exact.threshold, f1.percent, f1.threshold, answered};
    for (std::size_t i = 0; i < count; ++i) sums[i] = all[i];
  }
};

}  // namespace bert_hpc::metrics
