// Numbers that count as the nearest of some levels, as the bands of a test or the stars of a review.
#pragma once

#include <cstdint>
#include <span>

namespace bert_hpc::metrics {

/// The level that is nearest to a number, from 0; the lower one of two that are equally near. levels: ascending, not
/// empty. The last one for NaN.
std::size_t nearest_level(std::span<const float> levels, double value);

}  // namespace bert_hpc::metrics
