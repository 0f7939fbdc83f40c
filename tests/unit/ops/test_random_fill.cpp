#include "bert_hpc/ops/random_fill.hpp"
#include "support/vector.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

using namespace bert_hpc;

TEST_CASE("a part of a random vector has the bits of the whole") {
  test::Vector<float> whole(1003);
  ops::fill_normal(whole, 0.5f, 42);
  for (const std::size_t first : {0u, 1u, 2u, 3u, 4u, 50u, 255u, 256u, 1002u}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{7}, whole.size() - first}) {
      if (first + count > whole.size()) continue;
      test::Vector<float> part(count + 1, -7.0f);
      ops::fill_normal(std::span(part).first(count), 0.5f, 42, static_cast<std::int64_t>(first));
      CHECK(std::equal(part.begin(), part.end() - 1, whole.begin() + static_cast<std::ptrdiff_t>(first)));
      CHECK(part.back() == -7.0f);
    }
  }
}

TEST_CASE("truncated random values are those inside the bound, and others instead of those outside") {
  test::Vector<float> all(1003), inside(1003);
  ops::fill_normal(all, 0.5f, 42);
  ops::fill_truncated_normal(inside, 0.5f, 1.0f, 42);
  std::size_t redrawn = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(std::abs(inside[i]) <= 1.0f);
    if (std::abs(all[i]) <= 1.0f) {
      CHECK(inside[i] == all[i]);
    } else {
      ++redrawn;
    }
  }
  CHECK(redrawn > 20);  // 4.6% of them lie outside two deviations
  test::Vector<float> part(500);
  ops::fill_truncated_normal(part, 0.5f, 1.0f, 42, 300);
  CHECK(std::equal(part.begin(), part.end(), inside.begin() + 300));
}

TEST_CASE("random values have the mean and deviation asked for") {
  constexpr std::size_t count = 40000;
  test::Vector<float> values(count);
  ops::fill_normal(values, 2.0f, 7);
  double sum = 0, squares = 0;
  for (const float x : values) {
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  // Standard errors: 2/√n = 0.01 of the mean, 2/√(2n) = 0.007 of the deviation; five of them.
  CHECK(std::abs(sum / count) < 0.05);
  CHECK(std::abs(std::sqrt(squares / count) - 2) < 0.035);
}
