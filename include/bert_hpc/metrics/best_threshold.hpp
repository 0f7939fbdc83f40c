// The threshold of decisions that makes their F1 largest.
#pragma once

#include <cstdint>
#include <span>

namespace bert_hpc::metrics {

/// What is decided to be there is what has at least this probability.
struct BestThreshold {
  double probability = 0;  ///< halfway between the least one that is there and the next lower one (0 if there is none)
  double f1 = 0;           ///< of all decisions together
};

/// outputs (decisions): logits, whose probabilities are their sigmoids. is_there (decisions): 1 or 0. The highest
/// threshold among equals; both NaN if nothing is there, or an output is NaN.
BestThreshold best_threshold(std::span<const double> outputs, std::span<const std::uint8_t> is_there);

}  // namespace bert_hpc::metrics
