#include "bert_hpc/objectives/embedding.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/ops/multiple_negatives_loss.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

void require(const objectives::EmbeddingSettings& settings, const std::vector<std::int64_t>& groups,
             const std::vector<float>& scores) {
  objectives::require_texts_of_rows(settings, groups, scores,
                                    [](std::int64_t text) { return "text " + std::to_string(text); });
}

}  // namespace

TEST_CASE("settings of embeddings are the keys of their task") {
  config::Task task;
  task.name = "embedding";
  CHECK(objectives::embedding_settings(task).scale == 20);
  CHECK(objectives::embedding_settings(task).high == 1);
  task.numbers["scale"] = 5;
  task.switches["symmetric"] = true;
  task.lists["range"].numbers = {1, 4};
  task.words["loss"] = "cosine_similarity";
  const objectives::EmbeddingSettings settings = objectives::embedding_settings(task);
  CHECK((settings.scale == 5 && settings.symmetric && settings.low == 1 && settings.high == 4));
  CHECK(settings.reads_scores);
}

TEST_CASE("rows without texts, without scores and with scores outside of the range are named") {
  const objectives::EmbeddingSettings negatives, scores{.low = 0, .high = 5, .reads_scores = true};
  CHECK_NOTHROW(require(negatives, {0, 2, 5}, {}));
  CHECK_NOTHROW(require(negatives, {0, 2, 4}, {9, 9, -9, -9}));
  CHECK_NOTHROW(require(scores, {0, 2, 4}, {0, 0, 5, 5}));
  CHECK_THROWS_WITH(require(negatives, {0, 2, 3}, {}),
                    ContainsSubstring("text 2 begins a row of 1 text; a row has an"));
  CHECK_THROWS_WITH(require(scores, {0, 2, 5}, {1, 1, 2, 2, 2}), ContainsSubstring("text 2 begins a row of 3 texts"));
  CHECK_THROWS_WITH(require(scores, {0, 2}, {}), ContainsSubstring("its rows have no scores"));
  CHECK_THROWS_WITH(
      require(scores, {0, 2, 4}, {1, 1, 5.5, 5.5}),
      ContainsSubstring("text 2 has the score 5.5, outside of 0 to 5") && ContainsSubstring("(1 to 5.5 are there)"));
}

TEST_CASE("a block's loss and ranks") {
  objectives::BlockScorer scorer(2.0, false);
  const std::vector<float> east = {3, 0}, north = {0, 2}, north_east = {1, 1};
  // Anchors east and north; candidates north-east, north and, a negative of the second row, east.
  scorer.add(east, true);
  scorer.add(north_east, false);
  scorer.add(north, true);
  scorer.add(north, false);
  scorer.add(east, false);
  scorer.finish();
  const double half = std::sqrt(0.5), first = std::log(std::exp(2 * half) + 1 + std::exp(2.0)) - 2 * half,
               second = std::log(std::exp(2 * half) + std::exp(2.0) + 1) - 2;
  CHECK(std::abs(scorer.sums().loss - first - second) < 1e-12);
  CHECK(scorer.sums().anchors == 2);
  CHECK(scorer.sums().first == 1);  // of the first anchor, east is nearer
  CHECK(scorer.sums().reciprocal_ranks == 1.5);
  scorer.add(east, true);  // a block of its own has nothing to tell from
  scorer.add(north, false);
  scorer.finish();
  scorer.finish();
  CHECK(std::abs(scorer.sums().loss - first - second) < 1e-12);
  CHECK(scorer.sums().first == 2);

  objectives::BlockScorer both(2.0, true);
  both.add(east, true);
  both.add(north_east, false);
  both.add(north, true);
  both.add(north, false);
  both.finish();
  const double to_candidates =
      std::log(std::exp(2 * half) + 1) - 2 * half + std::log(std::exp(2 * half) + std::exp(2)) - 2;
  const double to_anchors = std::log(2.0) + std::log(1 + std::exp(2.0)) - 2;
  CHECK(std::abs(both.sums().loss - (to_candidates + to_anchors) / 2) < 1e-12);
}

TEST_CASE("the loss of several numbers of columns is the sum of their losses") {
  config::Task task;
  task.name = "embedding";
  task.lists["dimensions"].numbers = {8, 3};
  using test::Matrix;
  constexpr std::int64_t rows = 6, columns = 10;
  const Matrix x = Matrix::random(rows, columns, 5);
  const test::Vector<float> texts{0, 0, 1, 0, 2, 0, 0, 0, 1, 0, 2, 0};
  Matrix scratch(rows, 2), loss(1, rows), gradient(rows, columns), expected_loss(1, rows), expected(rows, columns);
  for (Matrix* sums : {&expected_loss, &expected}) std::fill(sums->values.begin(), sums->values.end(), 0.0f);
  const layers::StepLossKind kind = objectives::named("embedding").step_losses.front().make(task);
  kind.compute({.logits = x, .values = texts.data(), .scratch = scratch.values.data()}, 0, 0.5f, loss.values.data(),
               gradient);
  const core::Tensor<const float> all = x;
  const core::Tensor<float> sums = expected;
  for (const std::int64_t first : {8, 3}) {
    ops::multiple_negatives_loss({all.data, rows, first, all.stride}, texts.data(), {}, 0, 0.5f, scratch.values.data(),
                                 expected_loss.values.data(), {sums.data, rows, first, sums.stride});
  }
  CHECK(loss.values == expected_loss.values);
  CHECK(gradient.values == expected.values);
  CHECK(gradient(0, 9) == 0);
  CHECK(loss(0, 0) > 0);
}
