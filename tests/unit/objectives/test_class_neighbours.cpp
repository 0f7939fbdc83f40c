#include "bert_hpc/objectives/class_neighbours.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <limits>
#include <vector>

#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using objectives::ClassNeighbours;
using Kind = ops::BatchTriplets::Kind;

namespace {

ClassNeighbours::Sums sums_of(const std::vector<std::vector<float>>& embeddings, const std::vector<int>& classes,
                              const ops::BatchTriplets& loss = {}) {
  ClassNeighbours neighbours(loss);
  for (std::size_t i = 0; i < classes.size(); ++i) neighbours.add(embeddings[i], classes[i]);
  neighbours.finish();
  return neighbours.sums();
}

}  // namespace

TEST_CASE("precision at 1, R-precision and MAP@R of texts by hand") {
  // On a line: texts of class 0 at 0, 1 and 5, of class 1 at 2 and 5.5, of class 2 at 9.
  const ClassNeighbours::Sums sums =
      sums_of({{0}, {1}, {5}, {2}, {5.5f}, {9}}, {0, 0, 0, 1, 1, 2}, {.kind = Kind::all, .margin = 1.0f});
  CHECK(sums.texts == 5);    // the class of the last one has no other text
  CHECK(sums.nearest == 1);  // 0 → 1; 1 → 0 and 2 are equally near; 5 → 5.5; 2 → 1; 5.5 → 5
  // The two nearest are 1 and 2 for 0, 2 and 0 for 1, 5.5 and 2 for 5; the nearest is 1 for 2, and 5 for 5.5.
  CHECK(sums.r_precision == Catch::Approx(0.5 + 0.5));
  CHECK(sums.average_precision == Catch::Approx(1.0 / 2 + (1.0 / 2) / 2));
}

TEST_CASE("equal embeddings of all texts are no success") {
  const ClassNeighbours::Sums sums = sums_of({{1}, {1}, {1}, {1}}, {0, 0, 1, 1});
  CHECK(sums.texts == 4);
  CHECK(sums.nearest == 0);
  CHECK(sums.average_precision == 0);
}

TEST_CASE("the loss of an evaluation is that of the training, block by block") {
  const Kind kind = GENERATE(Kind::hard, Kind::soft_margin, Kind::semi_hard, Kind::all);
  const auto similarity = GENERATE(ops::Similarity::euclidean, ops::Similarity::cosine);
  const ops::BatchTriplets options{.kind = kind, .similarity = similarity, .margin = 0.4f};
  constexpr std::int64_t block = objectives::triplet_block, rows = 2 * block + 10, columns = 21;
  const test::Matrix x = test::Matrix::random(rows, columns, 7);
  test::Vector<std::int32_t> classes;
  ClassNeighbours neighbours(options);
  for (std::int64_t r = 0; r < rows; ++r) {
    classes.push_back(static_cast<std::int32_t>(r * r % 5));
    std::vector<float> row;
    for (std::int64_t j = 0; j < columns; ++j) row.push_back(x(r, j));
    neighbours.add(row, classes.back());
  }
  neighbours.finish();
  double expected = 0;
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t count = std::min(block, rows - begin);
    test::Vector<float> scratch(static_cast<std::size_t>(ops::BatchTriplets::scratch(count)));
    test::Matrix loss(1, count), gradient(count, columns);
    const core::Tensor<const float> all = x;
    ops::batch_triplet_loss({all.row(begin), count, columns, all.stride}, classes.data() + begin, options, 0, 1.0f,
                            scratch.data(), loss.values.data(), gradient);
    for (std::int64_t i = 0; i < count; ++i) expected += static_cast<double>(loss(0, i));
  }
  CHECK(neighbours.sums().loss_texts == rows);
  // Distances of floats, and losses that are rounded once: 2⁻²⁰ of each of the texts' losses, which are below 8.
  CHECK(neighbours.sums().loss == Catch::Approx(expected).epsilon(0).margin(rows * 8e-6));
}

TEST_CASE("an embedding that is not finite makes the loss NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ClassNeighbours::Sums sums = sums_of({{1}, {2}, {nan}, {4}}, {0, 0, 1, 1});
  CHECK(std::isnan(sums.loss));
  CHECK(sums.nearest == 2);
}
