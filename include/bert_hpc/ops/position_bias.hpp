// A bias of attention's scores that depends on how far the key is from the query (Shaw et al. 2018; in the form of
// Raffel et al., "T5", 2020, section 2.1; MPNet, Song et al. 2020): each head has a learned number for each bucket of
// distances. Near distances have buckets of their own, farther ones share buckets that grow with the distance.
#pragma once

#include <cstdint>
#include <vector>

#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/core/tensor.hpp"
#include "bert_hpc/ops/distance_buckets.hpp"

namespace bert_hpc::ops {

using core::Tensor;
using core::TokenRows;

/// What attention adds to the score of a query and a key: table(head, bucket_of(distance)). Without data in `table` it
/// adds nothing.
struct PositionBias : DistanceBuckets {
  Tensor<const float> table{};  ///< (heads, buckets)
};

/// The buckets of distances -reach … reach as T5 counts them: half of the buckets for keys in front of the query, half
/// for those behind it; of each half the first half are one distance each, the others grow logarithmically up to
/// `max_distance`, from which on the last one holds. `buckets` is a multiple of 4. Pure.
std::vector<std::int32_t> t5_buckets(std::int32_t buckets, std::int32_t max_distance, std::int32_t reach);

/// d_table (heads, buckets) += the sums of d_bias by bucket, in a fixed order: the bits depend on nothing but the
/// batch. `keys`: all tokens of `sequences` sequences.
void add_bucket_sums(const PositionBias& bias, std::int64_t sequences, const TokenRows& keys,
                     Tensor<const float> d_bias, Tensor<float> d_table);

}  // namespace bert_hpc::ops
