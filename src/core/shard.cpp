#include "bert_hpc/core/shard.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape, std::size_t first = 0) {
  std::int64_t result = 1;
  for (std::size_t i = first; i < shape.size(); ++i) result *= shape[i];
  return result;
}

}  // namespace

ShardRuns runs_of(const std::vector<std::int64_t>& shape, const Shard& shard) {
  const std::int64_t size = product(shape);
  if (shard.dimension <= 0) return {1, size, shard.is_whole() ? 0 : shard.begin * product(shape, 1), size};
  require(shape.size() == 2, "shard: only a matrix is shared out by columns");
  return {shape[0], shape[1], shard.begin, shard.whole};
}

std::vector<std::int64_t> whole_shape(std::vector<std::int64_t> shape, const Shard& shard) {
  if (!shard.is_whole()) shape[static_cast<std::size_t>(shard.dimension)] = shard.whole;
  return shape;
}

void place_shard(const std::vector<std::int64_t>& shape, const Shard& shard, std::span<const float> part,
                 std::span<float> whole) {
  require(static_cast<std::int64_t>(part.size()) == product(shape) &&
              static_cast<std::int64_t>(whole.size()) == product(whole_shape(shape, shard)),
          "shard: sizes do not fit the shape");
  const ShardRuns runs = runs_of(shape, shard);
  for (std::int64_t r = 0; r < runs.count; ++r) {
    std::copy_n(part.begin() + r * runs.length, runs.length, whole.begin() + runs.first + r * runs.stride);
  }
}

}  // namespace bert_hpc::core
