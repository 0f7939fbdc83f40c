// Scores, seen as a ranking.
#pragma once

#include <cstdint>
#include <span>

namespace bert_hpc::metrics {

/// The area under the ROC curve: the share of pairs of a positive and a negative in which the positive has the larger
/// score, equal scores counting half (Hanley and McNeil 1982). NaN if all are positive, none is, or a score is NaN.
/// scores, positive (samples); positive: 1, else 0.
double roc_auc(std::span<const double> scores, std::span<const std::uint8_t> positive);

/// Precision of one sample's label names, ranked by their scores: the mean over its own names of the share of own names
/// among those with at least the same score. 1 if all names are its own, or none is; NaN if a score is NaN. The mean
/// over samples is scikit-learn's label_ranking_average_precision_score (Tsoumakas et al. 2010, section 34.3.3).
/// scores, own (names); own: 1, else 0.
double label_ranking_precision(std::span<const float> scores, std::span<const std::uint8_t> own);

}  // namespace bert_hpc::metrics
