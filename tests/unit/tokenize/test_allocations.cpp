// What test_tokenize takes from the heap.
#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "support/counted_heap.hpp"

TEST_CASE("allocations are counted") {
  const std::int64_t before = allocations_so_far();
  const std::vector<int> memory(100, 3);
  CHECK(memory.size() == 100);
  CHECK(allocations_so_far() > before);
}
