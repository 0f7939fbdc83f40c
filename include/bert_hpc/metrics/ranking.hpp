// Scores, seen as a ranking.
#pragma once

#include <cstdint>
#include <span>

namespace bert_hpc::metrics {

/// The area under the ROC curve: the share of pairs of a positive and a negative in which the positive has the larger
/// score, equal scores counting half (Hanley and McNeil 1982). NaN where all are positive, none is, or a score is NaN.
/// scores, positive (samples); positive: 1, else 0.
double roc_auc(std::span<const double> scores, std::span<const std::uint8_t> positive);

}  // namespace bert_hpc::metrics
