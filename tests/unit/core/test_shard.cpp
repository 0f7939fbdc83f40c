#include "bert_hpc/core/shard.hpp"

#include <catch2/catch_test_macros.hpp>
#include <numeric>

using bert_hpc::core::Shard;
using namespace bert_hpc;

namespace {

// A whole of rows × columns numbered 0, 1, … put together from three shards along a dimension.
void check_parts(std::int64_t rows, std::int64_t columns, int dimension, bool vector) {
  const std::int64_t extent = dimension == 0 ? rows : columns;
  std::vector<float> whole(static_cast<std::size_t>(rows * columns), -1.0f), expected(whole.size());
  std::iota(expected.begin(), expected.end(), 0.0f);
  for (int rank = 0; rank < 3; ++rank) {
    const Shard shard{dimension, extent * rank / 3, extent};
    const std::int64_t share = extent * (rank + 1) / 3 - shard.begin;
    std::vector<std::int64_t> shape = {dimension == 0 ? share : rows, dimension == 1 ? share : columns};
    if (vector) shape.pop_back();
    std::vector<float> part;
    for (std::int64_t i = 0; i < (dimension == 0 ? share : rows); ++i) {
      for (std::int64_t j = 0; j < (dimension == 1 ? share : columns); ++j) {
        const std::int64_t row = i + (dimension == 0 ? shard.begin : 0),
                           column = j + (dimension == 1 ? shard.begin : 0);
        part.push_back(static_cast<float>(row * columns + column));
      }
    }
    core::put_shard(shape, shard, part, whole);
    CHECK(core::take_shard(shape, shard, expected) == part);
    CHECK(core::whole_shape(shape, shard) ==
          (vector ? std::vector<std::int64_t>{rows} : std::vector<std::int64_t>{rows, columns}));
  }
  CHECK(whole == expected);
}

}  // namespace

TEST_CASE("shards by rows and columns make the whole") {
  check_parts(7, 5, 0, false);
  check_parts(7, 5, 1, false);
  check_parts(4, 2, 1, false);  // one of them empty
  check_parts(11, 1, 0, true);
}

TEST_CASE("a whole parameter is one run") {
  const core::ShardRuns runs = core::runs_of({3, 4}, {});
  CHECK((runs.count == 1 && runs.length == 12 && runs.first == 0));
  CHECK(core::whole_shape({3, 4}, {}) == std::vector<std::int64_t>{3, 4});
}
