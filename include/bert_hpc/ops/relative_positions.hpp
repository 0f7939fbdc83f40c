// Disentangled attention (He et al., "DeBERTa: decoding-enhanced BERT with disentangled attention", 2021, equation 4):
// beside q·k a score has a product of the query with a key made of the distance, and one of the key with a query made
// of it,
//   s_ij = (q_i·k_j + q_i·keys[b_ij] + k_j·queries[b_ij]) / √(3·head_dim),  b_ij = bucket of j − i.
// Near distances have buckets of their own, farther ones share buckets that grow with the distance (DeBERTa-v2).
#pragma once

#include <cstdint>
#include <vector>

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/core/tensor.hpp"
#include "bert_hpc/ops/distance_buckets.hpp"

namespace bert_hpc::ops {

using core::Tensor;
using core::TokenRows;

struct RelativePositions {
  core::ConstMatrix keys{}, queries{};  ///< (buckets, hidden), of the type of q; without data: none
  DistanceBuckets distances{};

  bool any() const { return keys.data != nullptr; }
};

/// The buckets of distances -reach … reach as DeBERTa-v2 counts them, of 2·span: the one of distance 0 is `span`, those
/// of keys in front of the query lie above it. Distances up to span / 2 have one each, the others grow logarithmically
/// up to `max_distance`. Pure.
std::vector<std::int32_t> deberta_buckets(std::int32_t span, std::int32_t max_distance, std::int32_t reach);

/// d_rows (some buckets from first_bucket on, columns) = the sums by bucket of by_distance (2 · keys of all sequences,
/// columns), whose rows are numbered by distance_slot(), in a fixed order: the bits depend on nothing but the batch.
/// `keys`: all tokens of `sequences` sequences.
void sum_rows_by_bucket(const DistanceBuckets& distances, std::int64_t sequences, const TokenRows& keys,
                        Tensor<const float> by_distance, std::int64_t first_bucket, const core::Matrix& d_rows);

}  // namespace bert_hpc::ops
