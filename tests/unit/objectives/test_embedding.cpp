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
  CHECK(settings.reads_scores());
  CHECK(settings.similarity == ops::Similarity::cosine);
  task.words["loss"] = "triplet";
  task.numbers["margin"] = 2;
  CHECK_FALSE(objectives::embedding_settings(task).reads_scores());
  CHECK(objectives::embedding_settings(task).similarity == ops::Similarity::cosine);
  CHECK(objectives::embedding_settings(task).margin == 2);
  task.words["similarity"] = "euclidean";
  CHECK(objectives::embedding_settings(task).similarity == ops::Similarity::euclidean);
  task.words["loss"] = "margin_mse";
  CHECK(objectives::embedding_settings(task).similarity == ops::Similarity::euclidean);
  task.words["similarity"].reset();
  CHECK(objectives::embedding_settings(task).similarity == ops::Similarity::dot);
  task.words["similarity"] = "cosine";
  CHECK(objectives::embedding_settings(task).similarity == ops::Similarity::cosine);
}

TEST_CASE("rows without texts, without scores and with scores outside of the range are named") {
  using Loss = objectives::EmbeddingSettings::Loss;
  const objectives::EmbeddingSettings negatives, scores{.loss = Loss::cosine_similarity, .low = 0, .high = 5},
      triplets{.loss = Loss::triplet}, margins{.loss = Loss::margin_mse};
  CHECK_NOTHROW(require(negatives, {0, 2, 5}, {}));
  CHECK_NOTHROW(require(negatives, {0, 2, 4}, {9, 9, -9, -9}));
  CHECK_NOTHROW(require(scores, {0, 2, 4}, {0, 0, 5, 5}));
  CHECK_THROWS_WITH(require(negatives, {0, 2, 3}, {}),
                    ContainsSubstring("text 2 begins a row of 1 text; with [task] loss"));
  CHECK_THROWS_WITH(require(scores, {0, 2, 5}, {1, 1, 2, 2, 2}), ContainsSubstring("text 2 begins a row of 3 texts"));
  CHECK_THROWS_WITH(require(scores, {0, 2}, {}), ContainsSubstring("its rows have no scores"));
  CHECK_THROWS_WITH(
      require(scores, {0, 2, 4}, {1, 1, 5.5, 5.5}),
      ContainsSubstring("text 2 has the score 5.5, outside of 0 to 5") && ContainsSubstring("(1 to 5.5 are there)"));
  // Rows with scores have two texts each, or three.
  const std::vector<float> nine(9, 9.0f);
  CHECK_NOTHROW(require(negatives, {0, 3, 6, 9}, nine));
  CHECK_THROWS_WITH(require(negatives, {0, 3, 6, 8, 9}, nine), ContainsSubstring("text 6 begins a row of 2 texts"));
  CHECK_THROWS_WITH(require(negatives, {0, 4, 8}, std::vector<float>(8)), ContainsSubstring("a row of 4 texts"));
  CHECK_THROWS_WITH(require(scores, {0, 3, 6, 9}, nine), ContainsSubstring("a row has two texts and their score"));
  CHECK_NOTHROW(require(margins, {0, 3, 6, 9}, nine));
  CHECK_THROWS_WITH(require(margins, {0, 3, 6, 9}, {}), ContainsSubstring("\"margin_mse\" needs"));
  CHECK_THROWS_WITH(require(margins, {0, 2, 4}, std::vector<float>(4)),
                    ContainsSubstring("text 0 begins a row of 2 texts") && ContainsSubstring("(2 of 2 rows do not)") &&
                        ContainsSubstring("[source] negatives"));
  CHECK_NOTHROW(require(triplets, {0, 3, 8}, {}));
  CHECK_NOTHROW(require(triplets, {0, 3, 6, 9}, nine));
  CHECK_THROWS_WITH(require(triplets, {0, 3, 5, 9}, {}), ContainsSubstring("text 3 begins a row of 2 texts") &&
                                                             ContainsSubstring("one or more negatives") &&
                                                             ContainsSubstring("(1 of 3 rows does not)"));
}

TEST_CASE("a block's loss and ranks") {
  objectives::BlockScorer scorer({.scale = 2});
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
  CHECK(scorer.sums().reciprocal_ranks_of_ten == 1.5);
  CHECK(std::abs(scorer.sums().gains_of_ten - 1 - 1 / std::log2(3.0)) < 1e-12);
  CHECK(scorer.sums().among_ten == 2);
  scorer.add(east, true);  // a block of its own has nothing to tell from
  scorer.add(north, false);
  scorer.finish();
  scorer.finish();
  CHECK(std::abs(scorer.sums().loss - first - second) < 1e-12);
  CHECK(scorer.sums().first == 2);

  objectives::BlockScorer both({.scale = 2, .symmetric = true});
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

TEST_CASE("losses are of blocks of rows, ranks of all of them") {
  // Anchor r has the angle 2π r / rows, its positive that of row r + 70, so that 140 or more candidates are nearer.
  constexpr int rows = 3 * objectives::loss_block + 10, shift = 70;
  const auto at = [](int row) {
    const double angle = 2 * std::acos(-1.0) * row / rows;
    return std::vector<float>{static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
  };
  objectives::BlockScorer whole({.scale = 3}), blocks({.scale = 3});
  for (int row = 0; row < rows; ++row) {
    if (row % objectives::loss_block == 0) blocks.finish();
    for (objectives::BlockScorer* scorer : {&whole, &blocks}) {
      scorer->add(at(row), true);
      scorer->add(at(row + shift), false);
    }
  }
  whole.finish();
  blocks.finish();
  CHECK(whole.sums().loss == blocks.sums().loss);
  CHECK(whole.sums().anchors == rows);
  CHECK(whole.sums().among_ten == 0);
  CHECK(std::abs(whole.sums().reciprocal_ranks - rows / (2.0 * shift)) < 0.02 * rows / (2.0 * shift));
  CHECK(blocks.sums().reciprocal_ranks > 1.5 * whole.sums().reciprocal_ranks);
}

TEST_CASE("losses and comparisons of single rows") {
  using Loss = objectives::EmbeddingSettings::Loss;
  const std::vector<float> pair = {3, 4, 0, 2}, texts = {3, 4, 0, 2, 1, 0, 3, 4};  // cosines 0.8, 0.6 and 1
  objectives::RowScorer pairs({.loss = Loss::cosine_similarity, .low = 1, .high = 3});
  pairs.add(pair, 2, true, 2);
  CHECK(pairs.sums().compared.size() == 1);
  CHECK(std::abs(pairs.sums().compared[0] - 0.8) < 1e-12);
  CHECK(std::abs(pairs.sums().loss - 0.09) < 1e-12);
  CHECK((pairs.sums().rows == 1 && pairs.sums().triplets == 0));

  objectives::RowScorer triplets({.loss = Loss::triplet, .margin = 0.3});
  triplets.add(texts, 2, false, 0);
  CHECK(std::abs(triplets.sums().loss - (0.1 + 0.5) / 2) < 1e-7);
  CHECK((triplets.sums().rows == 1 && triplets.sums().triplets == 2 && triplets.sums().correct == 1));
  CHECK(triplets.sums().compared.empty());

  objectives::RowScorer margins({.loss = Loss::margin_mse, .similarity = ops::Similarity::dot});
  margins.add(std::span(texts).first(6), 2, true, 4);
  CHECK(margins.sums().compared == std::vector<double>{5});  // 8 − 3
  CHECK(margins.sums().loss == 1);
  CHECK(margins.sums().correct == 1);

  objectives::RowScorer ranked({});  // rows without scores have no loss of their own
  ranked.add(pair, 2, false, 0);
  ranked.add(texts, 2, false, 0);
  CHECK((ranked.sums().rows == 0 && ranked.sums().triplets == 2));
  CHECK(objectives::similarity_of(ops::Similarity::euclidean, std::span(pair).first(2), std::span(pair).last(2)) ==
        -std::sqrt(13.0));
}

TEST_CASE("ranks of a block follow the similarity that is trained") {
  const std::vector<float> anchor = {1, 0}, positive = {2, 0}, near = {1, 1};
  const auto first = [&](ops::Similarity similarity) {
    objectives::BlockScorer scorer({.similarity = similarity});
    scorer.add(anchor, true);
    scorer.add(positive, false);
    scorer.add(near, false);
    scorer.finish();
    return scorer.sums().first;
  };
  CHECK(first(ops::Similarity::cosine) == 1);
  CHECK(first(ops::Similarity::dot) == 1);
  CHECK(first(ops::Similarity::euclidean) == 0);  // equally near
}

TEST_CASE("the loss of several numbers of columns is the sum of their losses") {
  config::Task task;
  task.name = "embedding";
  task.lists["dimensions"].numbers = {8, 3};
  using test::Matrix;
  constexpr std::int64_t rows = 6, columns = 10;
  const Matrix x = Matrix::random(rows, columns, 5);
  const test::Vector<float> texts{0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0};
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
