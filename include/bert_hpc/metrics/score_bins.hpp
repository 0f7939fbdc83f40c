// Scores of any number of samples in a bounded number of bins, for figures of their order. A bin counts as one score:
// a pair of samples in the same bin is a tie.
#pragma once

#include <cstddef>
#include <span>

#include "bert_hpc/metrics/best_threshold.hpp"

namespace bert_hpc::metrics {

/// Up to this many scores are kept one by one (128 MiB of sums); more are counted in bins.
inline constexpr std::size_t max_kept_scores = std::size_t{1} << 24;

/// Bins for each of the labels: between 1024 and 65,536, all together at most 128 MiB of counts of two kinds; 0 of more
/// labels than 8192.
std::size_t score_bins(std::size_t labels);

/// The bin of a logit. Bins have the same width in x / (1 + |x|): near 0 a width of 2 / bins, at |x| = 10 of
/// 242 / bins. score is not NaN.
std::size_t bin_of(double score, std::size_t bins);

/// Counts a score in its bin. counts (bins): NaN makes one of them NaN.
void count_score(double score, std::span<double> counts);

/// The least logit of a bin; minus infinity of the first.
double bin_begin(std::size_t bin, std::size_t bins);

/// The area under the ROC curve as roc_auc() of scores that are the number of their bin. negatives, positives (bins):
/// samples of each kind. NaN if one kind has none, or a count is NaN.
double roc_auc_of_bins(std::span<const double> negatives, std::span<const double> positives);

/// The best of the thresholds where a bin begins. absent, present (bins): decisions of each kind. Both NaN where
/// nothing is present, or a count is NaN.
BestThreshold best_threshold_of_bins(std::span<const double> absent, std::span<const double> present);

}  // namespace bert_hpc::metrics
