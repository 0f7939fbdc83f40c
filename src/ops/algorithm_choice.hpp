// The choice of a library's gemm algorithm when results may depend on the number of rows (not in reproducible mode):
// the algorithms that were fastest in trials, for row counts in steps of √2. Pure arithmetic; the back end runs the
// trials (cuda/cublas_matmul.cpp).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bert_hpc::ops {

/// The bucket of `rows`: the smallest of 1, 2, 3, 4, 6, 8, 12, … (powers of two and their midpoints) that is not
/// smaller.
constexpr std::int64_t row_bucket(std::int64_t rows) {
  std::int64_t power = 1;
  while (power < rows) power *= 2;
  const std::int64_t halfway = power / 4 * 3;
  return halfway >= rows && halfway > 0 ? halfway : power;
}

/// Buckets to try before any gemm of at most `most` rows, descending: full micro-batches and remainders down to an
/// eighth. Smaller gemms take little time.
inline std::vector<std::int64_t> buckets_to_try(std::int64_t most) {
  std::vector<std::int64_t> buckets = {row_bucket(most)};
  while (buckets.back() > 1) {
    const std::int64_t last = buckets.back(), power = row_bucket(last / 2 + 1);  // the next is 2/3 or 3/4 of the last
    const std::int64_t next = power < last ? power : last / 2;
    if (next < most / 8) break;
    buckets.push_back(next);
  }
  return buckets;
}

/// Chooses among candidates in the library's own order, given the shortest measured time of each: the fastest, or an
/// earlier one that is at most 2% slower, which is the noise of repeated measurements. Times that are not positive and
/// finite mark failed candidates. Returns `times.size()` if all failed.
inline std::size_t choose_algorithm(std::span<const float> times) {
  constexpr float noise = 1.02f;
  const auto works = [](float time) { return std::isfinite(time) && time > 0.0f; };
  float least = INFINITY;
  for (const float time : times) {
    if (works(time) && time < least) least = time;
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (works(times[i]) && times[i] <= noise * least) return i;
  }
  return times.size();
}

}  // namespace bert_hpc::ops
