// Which of a library's algorithms a product takes where results may depend on the number of rows (not in reproducible
// mode): those that were fastest when they were tried, for numbers of rows in steps of √2. Arithmetic only; trying is
// the back end's (cuda/cublas_matmul.cpp).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bert_hpc::ops {

/// The number of rows that stands for `rows`: the least of 1, 2, 3, 4, 6, 8, 12, … (powers of two, and halfway between
/// them) that is not below.
constexpr std::int64_t row_bucket(std::int64_t rows) {
  std::int64_t power = 1;
  while (power < rows) power *= 2;
  const std::int64_t halfway = power / 4 * 3;
  return halfway >= rows && halfway > 0 ? halfway : power;
}

/// Buckets to try before any product of at most `most` rows, descending: full micro-batches and what is left of them
/// down to an eighth. Whatever is smaller takes little time.
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

/// Of candidates in the library's own order, with the least time that each took: the fastest; an earlier one where it
/// is not slower by more than 2%, which is what measurements of one and the same differ by. Times that are not positive
/// and finite are of candidates that failed. `times.size()` where all have.
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
