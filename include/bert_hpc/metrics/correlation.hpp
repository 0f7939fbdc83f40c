// Correlations of two rows of numbers.
#pragma once

#include <span>
#include <vector>

namespace bert_hpc::metrics {

/// Pearson's correlation of two rows of equally many values: NaN where those of one are all alike. Of their ranks it is
/// Spearman's.
double pearson(std::span<const double> x, std::span<const double> y);

/// Lin's concordance correlation coefficient (doi:10.2307/2532051): 1 where x and y are equal, 0 if they have
/// nothing in common. NaN if all values of both are one and the same.
double concordance(std::span<const double> x, std::span<const double> y);

/// Ranks from 1 by value; equal values share the mean of theirs. `values` has no NaN.
std::vector<double> ranks_of(std::span<const double> values);

/// The mean; seen from the first value, so that it is this value itself, to the bit, where all are alike.
double mean_of(std::span<const double> values);

}  // namespace bert_hpc::metrics
