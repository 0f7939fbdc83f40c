// Distances of keys from queries in attention whose scores depend on them: their buckets, and the order of gradients
// that are summed by distance.
#pragma once

#include <cstdint>

#include "bert_hpc/core/device.hpp"

namespace bert_hpc::ops {

/// Buckets of distances: the position of a key - that of a query.
struct DistanceBuckets {
  /// (2·reach + 1): the buckets of distances -reach … reach. Distances of one bucket are neighbours.
  const std::int32_t* bucket = nullptr;
  std::int32_t reach = 0;  ///< farther keys have the bucket of this distance

  BERT_HPC_DEVICE std::int32_t bucket_of(std::int64_t distance) const {
    const std::int64_t nearer = distance < reach ? distance : reach;
    return bucket[(nearer > -reach ? nearer : -reach) + reach];
  }
};

/// Among 2 · keys of all sequences the number of one distance of one sequence, under which attention's backward pass
/// leaves what it sums by distance. Sums of a position bias beyond its reach may be added to that at the reach.
BERT_HPC_DEVICE std::int64_t distance_slot(std::int64_t first_key, std::int64_t keys, std::int64_t distance) {
  return 2 * first_key + keys - 1 + distance;
}

}  // namespace bert_hpc::ops
