#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <numeric>

#include "bert_hpc/ops/best_rows.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

struct Lists {
  test::Vector<float> scores;
  test::Vector<std::int32_t> numbers;
  std::int64_t queries, k;

  Lists(std::int64_t query_count, std::int64_t size)
      : scores(static_cast<std::size_t>(query_count * size)),
        numbers(static_cast<std::size_t>(query_count * size)),
        queries(query_count),
        k(size) {
    ops::clear_best_rows(view());
  }
  ops::BestRows view() { return {scores.data(), numbers.data(), queries, k}; }
};

/// The numbers of a query's documents by falling score, of equal ones by rising number.
std::vector<std::int32_t> sorted(const Matrix& scores, std::int64_t query) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(scores.columns));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return scores(query, a) > scores(query, b); });
  return order;
}

}  // namespace

TEST_CASE("the best rows of scores that come in blocks are those of a sort") {
  constexpr std::int64_t queries = 5, documents = 1500;
  Matrix scores = Matrix::random(queries, documents, 3);
  // Steps of 1/8, so that many scores are equal.
  for (std::int64_t q = 0; q < queries; ++q) {
    for (std::int64_t j = 0; j < documents; ++j) scores(q, j) = std::round(8.0f * scores(q, j)) / 8.0f;
  }
  for (const std::int64_t k : {1, 7, 100}) {
    for (const std::int64_t block : {1, 255, 256, 700, 1500}) {
      Lists lists(queries, k);
      for (std::int64_t begin = 0; begin < documents; begin += block) {
        const std::int64_t count = std::min(block, documents - begin);
        const core::Tensor<const float> all = scores;
        ops::keep_best_rows(all.column_range(begin, count), static_cast<std::int32_t>(begin), lists.view());
      }
      bool equal = true;
      for (std::int64_t q = 0; q < queries; ++q) {
        const std::vector<std::int32_t> order = sorted(scores, q);
        for (std::int64_t i = 0; i < k; ++i) {
          const auto at = static_cast<std::size_t>(q * k + i);
          const std::int32_t expected = order[static_cast<std::size_t>(i)];
          equal = equal && lists.numbers[at] == expected && lists.scores[at] == scores(q, expected);
        }
      }
      CHECK(equal);
    }
  }
}

TEST_CASE("lists of best rows have empty entries at their ends if there are few documents") {
  Matrix scores(1, 2);
  scores(0, 0) = -3.0f;
  scores(0, 1) = -2.0f;
  Lists lists(1, 4);
  ops::keep_best_rows(scores, 10, lists.view());
  CHECK(lists.numbers[0] == 11);
  CHECK(lists.numbers[1] == 10);
  CHECK(lists.numbers[2] == -1);
  CHECK(lists.scores[3] == -std::numeric_limits<float>::infinity());
}
