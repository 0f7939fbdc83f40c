// The distances of a bucket, for the kernels that sum gradients by bucket.
#pragma once

#include "bert_hpc/ops/distance_buckets.hpp"
#include "kernel.hpp"

namespace bert_hpc::ops {

struct DistanceRange {
  std::int64_t first, last;

  /// Its distances that occur in a sequence of so many tokens.
  KOKKOS_INLINE_FUNCTION DistanceRange within(std::int64_t length) const {
    return {first > 1 - length ? first : 1 - length, last < length - 1 ? last : length - 1};
  }
};

/// last < first: the bucket has none.
KOKKOS_INLINE_FUNCTION DistanceRange distances_of(const DistanceBuckets& by, std::int64_t bucket) {
  constexpr std::int64_t beyond_all = std::int64_t{1} << 40;
  DistanceRange range{1, 0};
  for (std::int64_t distance = -by.reach; distance <= by.reach; ++distance) {
    if (by.bucket_of(distance) != bucket) continue;
    if (range.last < range.first) range.first = distance == -by.reach ? -beyond_all : distance;
    range.last = distance == by.reach ? beyond_all : distance;
  }
  return range;
}

}  // namespace bert_hpc::ops
