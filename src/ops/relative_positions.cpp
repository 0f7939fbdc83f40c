#include "bert_hpc/ops/relative_positions.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "bert_hpc/core/error.hpp"
#include "column_group.hpp"
#include "distance_range.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

template <class T>
void sum_rows(const DistanceBuckets& distances, std::int64_t sequences, const TokenRows& keys,
              Tensor<const float> by_distance, std::int64_t first_bucket, Tensor<T> d_rows) {
  const DistanceBuckets by = distances;
  const std::int32_t* const offsets = keys.offsets;
  kernel::for_rows(
      {"bert_hpc::ops::sum_rows_by_bucket", kernel::bytes_of<float>(by_distance.size())}, d_rows.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t item) {
        const DistanceRange range = distances_of(by, first_bucket + item);
        for (std::int64_t begin = 0; begin < d_rows.columns; begin += kernel::group_columns) {
          const std::int64_t width = kernel::group_width(d_rows.columns, begin);
          kernel::ColumnGroup group;
          for (std::int64_t b = 0; b < sequences; ++b) {
            const std::int64_t first = offsets[b], length = offsets[b + 1] - first;
            const DistanceRange here = range.within(length);
            for (std::int64_t distance = here.first; distance <= here.last; ++distance) {
              group.add(team, width, 1.0f, by_distance.row(distance_slot(first, length, distance)) + begin);
            }
          }
          group.store(team, width, 1.0f, d_rows.row(item) + begin);
        }
      });
}

}  // namespace

std::vector<std::int32_t> deberta_buckets(std::int32_t span, std::int32_t max_distance, std::int32_t reach) {
  const std::int32_t exact = span / 2;
  core::require(exact > 1 && max_distance - 1 > exact, "relative positions: not buckets of DeBERTa");
  // In float, as PyTorch computes them.
  const auto growth = std::log(static_cast<float>(max_distance - 1) / static_cast<float>(exact));
  std::vector<std::int32_t> result;
  for (std::int32_t distance = -reach; distance <= reach; ++distance) {
    std::int32_t away = std::abs(distance);
    if (away > exact) {
      const float share = std::log(static_cast<float>(away) / static_cast<float>(exact)) / growth;
      away = static_cast<std::int32_t>(std::ceil(share * static_cast<float>(exact - 1))) + exact;
    }
    const std::int32_t bucket = distance > 0 ? span - away : span + away;
    result.push_back(std::clamp(bucket, 0, 2 * span - 1));
  }
  return result;
}

void sum_rows_by_bucket(const DistanceBuckets& distances, std::int64_t sequences, const TokenRows& keys,
                        Tensor<const float> by_distance, std::int64_t first_bucket, const core::Matrix& d_rows) {
  core::require(by_distance.rows == 2 * keys.count && by_distance.columns == d_rows.columns,
                "relative positions: rows of all distances");
  core::with_type(d_rows.type, [&]<class T>() {
    sum_rows<T>(distances, sequences, keys, by_distance, first_bucket, d_rows.as<T>());
  });
}

}  // namespace bert_hpc::ops
