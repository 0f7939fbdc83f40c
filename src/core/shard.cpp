#include "bert_hpc/core/shard.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {

std::int64_t elements_of(std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

ShardRuns runs_of(const std::vector<std::int64_t>& shape, const Shard& shard) {
  const std::int64_t size = elements_of(shape);
  if (shard.dimension <= 0)
    return {1, size, shard.is_whole() ? 0 : shard.begin * elements_of(std::span(shape).subspan(1)), size};
  require(shape.size() == 2, "shard: only a matrix is shared out by columns");
  return {shape[0], shape[1], shard.begin, shard.whole};
}

std::vector<std::int64_t> whole_shape(std::vector<std::int64_t> shape, const Shard& shard) {
  if (!shard.is_whole()) shape[static_cast<std::size_t>(shard.dimension)] = shard.whole;
  return shape;
}

void put_shard(const std::vector<std::int64_t>& shape, const Shard& shard, std::span<const float> part,
               std::span<float> whole) {
  require(static_cast<std::int64_t>(part.size()) == elements_of(shape) &&
              static_cast<std::int64_t>(whole.size()) == elements_of(whole_shape(shape, shard)),
          "shard: sizes do not fit the shape");
  const ShardRuns runs = runs_of(shape, shard);
  for (std::int64_t r = 0; r < runs.count; ++r) {
    std::copy_n(part.begin() + r * runs.length, runs.length, whole.begin() + runs.first + r * runs.stride);
  }
}

std::vector<float> take_shard(const std::vector<std::int64_t>& shape, const Shard& shard,
                              std::span<const float> whole) {
  require(static_cast<std::int64_t>(whole.size()) == elements_of(whole_shape(shape, shard)),
          "shard: the whole's size does not fit the shape");
  const ShardRuns runs = runs_of(shape, shard);
  std::vector<float> part(static_cast<std::size_t>(runs.count * runs.length));
  for (std::int64_t r = 0; r < runs.count; ++r) {
    std::copy_n(whole.begin() + runs.first + r * runs.stride, runs.length, part.begin() + r * runs.length);
  }
  return part;
}

}  // namespace bert_hpc::core
