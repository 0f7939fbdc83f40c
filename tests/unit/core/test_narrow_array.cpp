// Arrays of small numbers keep their elements whatever the order in which large ones come.
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <vector>

#include "bert_hpc/core/narrow_array.hpp"

using bert_hpc::core::NarrowArray;

namespace {

void check_equal(const NarrowArray& array, const std::vector<std::int32_t>& expected) {
  REQUIRE(array.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) REQUIRE(array[i] == expected[i]);
  for (std::size_t first = 0; first <= expected.size(); ++first) {
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(first);
    REQUIRE(array.sum(first, expected.size()) == std::accumulate(begin, expected.end(), std::int64_t{0}));
  }
}

}  // namespace

TEST_CASE("a narrow array holds what was put into it, and takes as few bytes as its largest element") {
  struct Case {
    std::vector<std::int32_t> numbers;
    std::size_t bytes;  // of an element
  };
  const Case cases[] = {{{}, 0},
                        {{7}, 0},
                        {{7, 7, 7}, 0},
                        {{0, 1, 255}, 1},
                        {{1, 256}, 2},
                        {{300, 1}, 2},
                        {{300, 300, 1}, 2},
                        {{70000, 70000}, 0},
                        {{70000, 1, 2}, 4},
                        {{5, 5, 70000, 5}, 4},
                        {{-1, -1, 0}, 4},
                        {{0, 255, -3}, 4},
                        {{1, 2, 300, 70000, 2147483647}, 4}};
  for (const Case& one : cases) {
    NarrowArray array;
    for (const std::int32_t number : one.numbers) array.push_back(number);
    array.shrink_to_fit();
    check_equal(array, one.numbers);
    CHECK(array.memory_bytes() == one.bytes * one.numbers.size());
    CHECK(array.all_equal() == (one.bytes == 0));
    NarrowArray set;
    for (std::size_t i = 0; i < one.numbers.size(); ++i) set.push_back(4);
    for (std::size_t i = 0; i < one.numbers.size(); ++i) set.set(i, one.numbers[i]);
    check_equal(set, one.numbers);
  }
}
