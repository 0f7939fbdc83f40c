// A part of a parameter where the ranks of a tensor-parallel group share it out by rows or by columns. Values are
// initialised, read and written by their place in the whole, so that a model does not depend on how it is shared out.
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

/// A shard as runs of neighbouring elements of the whole: run r is the shard's elements [r·length, (r + 1)·length) and
/// the whole's from first + r·stride on.
struct ShardRuns {
  std::int64_t count = 0, length = 0, first = 0, stride = 0;
};

/// `shape` is the shard's own.
ShardRuns runs_of(const std::vector<std::int64_t>& shape, const Shard& shard);

/// Shape of the whole.
std::vector<std::int64_t> whole_shape(std::vector<std::int64_t> shape, const Shard& shard);

/// Copies a shard's elements to their places in the whole.
void place_shard(const std::vector<std::int64_t>& shape, const Shard& shard, std::span<const float> part,
                 std::span<float> whole);

}  // namespace bert_hpc::core
