// Shard: the part of a parameter that one rank of a tensor-parallel group holds, split by rows or by columns. Values
// are initialised, read and written by their position in the whole parameter, so a model does not depend on the split.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bert_hpc::core {

struct Shard {
  int dimension = -1;      ///< 0: rows (elements of a vector) [begin, …) of the whole, 1: columns, −1: the whole
  std::int64_t begin = 0;  ///< rows or columns of the whole before this part
  std::int64_t whole = 0;  ///< rows or columns of the whole

  bool is_whole() const { return dimension < 0; }
  bool operator==(const Shard&) const = default;
};

/// Product of the extents; 1 for a scalar.
std::int64_t elements_of(std::span<const std::int64_t> shape);

/// A shard as runs of contiguous elements of the whole: run r holds the shard's elements [r·length, (r + 1)·length),
/// which begin at element first + r·stride of the whole.
struct ShardRuns {
  std::int64_t count = 0, length = 0, first = 0, stride = 0;

  /// Index of the shard's element in the whole parameter.
  constexpr std::int64_t index(std::int64_t element) const {
    return first + (count <= 1 ? element : element / length * stride + element % length);
  }
};

/// `shape` is that of the shard.
ShardRuns runs_of(const std::vector<std::int64_t>& shape, const Shard& shard);

/// Shape of the whole parameter; `shape` is that of the shard.
std::vector<std::int64_t> whole_shape(std::vector<std::int64_t> shape, const Shard& shard);

/// Copies a shard's elements to their positions in the whole.
void put_shard(const std::vector<std::int64_t>& shape, const Shard& shard, std::span<const float> part,
               std::span<float> whole);
/// The other way round.
std::vector<float> take_shard(const std::vector<std::int64_t>& shape, const Shard& shard, std::span<const float> whole);

}  // namespace bert_hpc::core
