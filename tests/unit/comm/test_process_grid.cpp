#include "bert_hpc/comm/process_grid.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;
using comm::GridCoordinates;
using comm::GridShape;

namespace {

std::string refusal(GridShape requested, int ranks, const comm::GridLimits& limits = {}) {
  try {
    comm::resolve_grid(requested, ranks, limits);
  } catch (const core::Error& error) {
    CHECK(error.code() == core::ExitCode::input);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("rank and coordinates are inverse, tensor runs fastest and pipeline slowest") {
  const GridShape shape{.data = 3, .pipeline = 4, .tensor = 2};
  CHECK(shape.ranks() == 24);
  std::set<int> seen;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const GridCoordinates at = comm::coordinates(shape, rank);
    CHECK(comm::rank_at(shape, at) == rank);
    CHECK((at.data < 3 && at.pipeline < 4 && at.tensor < 2));
    seen.insert((at.data * 4 + at.pipeline) * 2 + at.tensor);
  }
  CHECK(seen.size() == 24);
  CHECK(comm::coordinates(shape, 1) == GridCoordinates{.data = 0, .pipeline = 0, .tensor = 1});
  CHECK(comm::coordinates(shape, 2) == GridCoordinates{.data = 1, .pipeline = 0, .tensor = 0});
  CHECK(comm::coordinates(shape, 6) == GridCoordinates{.data = 0, .pipeline = 1, .tensor = 0});
}

TEST_CASE("a direction of 0 gets the remaining ranks") {
  CHECK(comm::resolve_grid({0, 1, 1}, 8) == GridShape{8, 1, 1});
  CHECK(comm::resolve_grid({0, 2, 2}, 8) == GridShape{2, 2, 2});
  CHECK(comm::resolve_grid({2, 0, 1}, 8) == GridShape{2, 4, 1});
  CHECK(comm::resolve_grid({1, 2, 0}, 2) == GridShape{1, 2, 1});
  CHECK(comm::resolve_grid({2, 2, 1}, 4) == GridShape{2, 2, 1});
}

TEST_CASE("a grid that does not fit the ranks is refused with the nearest that do") {
  CHECK(refusal({3, 2, 1}, 8) ==
        "[parallel] data = 3, pipeline = 2, tensor = 1 needs 6 ranks, but there are 8 ranks. Closest valid layouts of "
        "8 ranks:\n"
        "     data = 4, pipeline = 2, tensor = 1\n"
        "     data = 2, pipeline = 4, tensor = 1\n"
        "     data = 2, pipeline = 2, tensor = 2");
  CHECK(refusal({0, 3, 1}, 4) ==
        "[parallel] data = 0, pipeline = 3, tensor = 1 needs a multiple of 3 ranks, but there are 4 ranks. Closest "
        "valid layouts of 4 ranks:\n"
        "     data = 1, pipeline = 4, tensor = 1\n"
        "     data = 2, pipeline = 2, tensor = 1\n"
        "     data = 4, pipeline = 1, tensor = 1");
  CHECK(refusal({2, 1, 1}, 1) ==
        "[parallel] data = 2, pipeline = 1, tensor = 1 needs 2 ranks, but there is 1 rank. Closest valid layouts of 1 "
        "rank:\n     data = 1, pipeline = 1, tensor = 1");
}

TEST_CASE("two directions of 0, negative and absurd sizes are refused") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(refusal({0, 0, 1}, 4), ContainsSubstring("only one of the three can be 0"));
  CHECK_THAT(refusal({-1, 1, 1}, 4), ContainsSubstring("each is at least 0"));
  // Its product is 2^66: it must not wrap to something that fits.
  CHECK_THAT(refusal({1 << 20, 1 << 20, 1 << 26}, 4), ContainsSubstring("at most 1,048,576"));
  CHECK_THAT(refusal({1 << 20, 1 << 20, 1 << 20}, 4), ContainsSubstring("needs 1,152,921,504,606,846,976 ranks"));
}

TEST_CASE("the model's and reproducible sums' requirements on a grid") {
  CHECK(comm::resolve_grid({2, 4, 1}, 8, {.stages = 4}) == GridShape{2, 4, 1});
  CHECK(refusal({0, 4, 1}, 8, {.stages = 3}) ==
        "[parallel] pipeline = 4 is too many: the model can be cut into at most 3 stages. Closest valid layouts of 8 "
        "ranks:\n"
        "     data = 4, pipeline = 2, tensor = 1\n"
        "     data = 2, pipeline = 2, tensor = 2\n"
        "     data = 8, pipeline = 1, tensor = 1");
  CHECK(refusal({1, 1, 4}, 4, {.heads = 6}) ==
        "[parallel] tensor = 4 does not divide the model's 6 attention heads. Closest valid layouts of 4 ranks:\n"
        "     data = 2, pipeline = 1, tensor = 2\n"
        "     data = 1, pipeline = 2, tensor = 2\n"
        "     data = 4, pipeline = 1, tensor = 1");
  CHECK(refusal({0, 1, 1}, 6, {.heads = 3, .power_of_two_data = true}) ==
        "[run] reproducible needs a power of two of data-parallel replicas, but data = 6. Closest valid layouts of 6 "
        "ranks:\n"
        "     data = 2, pipeline = 3, tensor = 1\n"
        "     data = 2, pipeline = 1, tensor = 3\n"
        "     data = 1, pipeline = 6, tensor = 1");
  CHECK(
      refusal({0, 1, 1}, 3, {.stages = 2, .heads = 2, .power_of_two_data = true}) ==
      "[run] reproducible needs a power of two of data-parallel replicas, but data = 3. No layout of 3 ranks is valid: "
      "start another number of ranks.");
}
