#include "bert_hpc/ops/position_bias.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "bert_hpc/core/error.hpp"
#include "distance_range.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
std::vector<std::int32_t> t5_buckets(std::int32_t buckets, std::int32_t max_distance, std::int32_t reach) {
  core::require(buckets > 0 && buckets % 4 == 0 && max_distance > buckets / 4, "position bias: not buckets of T5");
  const std::int32_t half = buckets / 2, exact = half / 2;
  // In float, as PyTorch computes them.
  const auto growth = static_cast<float>(std::log(static_cast<double>(max_distance) / exact));
  std::vector<std::int32_t> result;
  for (std::int32_t distance = -reach; distance <= reach; ++distance) {
    const std::int32_t away = std::abs(distance);
    std::int32_t bucket = away;
    if (away >= exact) {
      const float share = std::log(static_cast<float>(away) / static_cast<float>(exact)) / growth;
      bucket = std::min(exact + static_cast<std::int32_t>(share * static_cast<float>(half - exact)), half - 1);
    }
    result.push_back(distance > 0 ? half + bucket : bucket);
  }
  return result;
}

void add_bucket_sums(const PositionBias& bias, std::int64_t sequences, const TokenRows& keys,
                     Tensor<const float> d_bias, Tensor<float> d_table) {
  const DistanceBuckets by = bias;
  const std::int32_t* const offsets = keys.offsets;
  kernel::for_rows(
      {"bert_hpc::ops::add_bucket_sums", kernel::bytes_of<float>(d_bias.size())}, d_table.rows * d_table.columns,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t item) {
        const std::int64_t head = item / d_table.columns, bucket = item % d_table.columns;
        const DistanceRange range = distances_of(by, bucket);
        const auto total = team.sum<float>(sequences, [=](std::int64_t b) {
          const std::int64_t first = offsets[b], length = offsets[b + 1] - first;
          const DistanceRange here = range.within(length);
          float sum = 0.0f;
          for (std::int64_t distance = here.first; distance <= here.last; ++distance) {
            sum += d_bias(head, distance_slot(first, length, distance));
          }
          return sum;
        });
        if (team.leads()) d_table(head, bucket) += total;
      });
}

}  // namespace bert_hpc::ops
