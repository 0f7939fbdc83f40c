// Metrics of rankings against figures computed by hand.
#include "bert_hpc/objectives/ranking_scorer.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <map>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/shard_writer.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using objectives::RankingScorer;

namespace {

struct Query {
  std::string id;
  std::vector<std::int32_t> levels, further{};
  std::vector<float> scores{};
};

/// Candidates are called a, b, c, …
struct Data {
  test::ScratchDirectory directory;
  std::vector<Query> queries;
  data::ShardReaderOptions options;

  explicit Data(std::vector<Query> all, bool texts = true) : queries(std::move(all)) {
    data::ShardInfo info;
    info.task = tasks::find("answer_ranking");
    info.vocabulary_hash = "cafe";
    info.vocabulary_size = 10;
    info.tokenizer = R"({"cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0})";
    info.has_texts = texts;
    data::ShardWriter writer(directory / "a.h5", info, false);
    std::int64_t row = 0;
    const std::vector<std::int32_t> ids = {2, 5, 3};
    for (const Query& query : queries) {
      for (std::size_t i = 0; i < query.levels.size(); ++i) {
        const std::vector<std::string> row_texts = {query.id, i == 0 ? data::levels_to_json(query.further) : "",
                                                    std::string(1, static_cast<char>('a' + i))};
        writer.add(ids, {}, {.number = query.levels[i]}, row++,
                   {.starts_group = i == 0, .starts_row = true, .texts = row_texts});
      }
    }
    writer.finish();
    options.paths = {directory / "a.h5"};
    options.limits.task = info.task;
    options.source_index = true;
  }

  std::map<std::string, double> metrics(const objectives::RankingSettings& settings, double* loss = nullptr) const {
    const data::ShardReader reader(options);
    std::mutex hdf5;
    RankingScorer scorer(reader, hdf5, settings);
    for (const Query& query : queries) {
      for (const float score : query.scores) scorer.add(score);
    }
    metrics::Evaluation evaluation({&metrics::rankings()}, {.outputs = 1, .levels = reader.levels()});
    scorer.finish(evaluation.sums_of(metrics::rankings()));
    evaluation.set_loss(scorer.loss());
    if (loss != nullptr) *loss = evaluation.loss();
    const auto values = evaluation.values();
    return {values.begin(), values.end()};
  }
};

/// Ranks of what is relevant: 2 and 3 of three; 1, as of equals the last id comes first; none; none, but one elsewhere.
const std::vector<Query> some = {{"p", {0, 1, 2}, {}, {3, 1, 2}},
                                 {"q", {0, 1}, {}, {0.5f, 0.5f}},
                                 {"r", {0, 0}, {}, {-1, -2}},
                                 {"s", {0}, {1}, {-3}}};

}  // namespace

TEST_CASE("means over queries that have something relevant") {
  const auto found = Data(some).metrics({});
  CHECK(found.at("map") == ((1.0 / 2 + 2.0 / 3) / 2 + 1 + 0) / 3);
  CHECK(found.at("mrr") == (0.5 + 1 + 0) / 3);
  CHECK(found.at("mrr_at_10") == (0.5 + 1 + 0) / 3);
  const double gain = (2 / std::log2(3) + 1 / std::log2(4)) / (2 + 1 / std::log2(3));
  CHECK(found.at("ndcg_at_10") == Approx((gain + 1 + 0) / 3).epsilon(1e-15));
  CHECK(found.at("precision_at_1") == 1.0 / 3);
  CHECK(found.at("recall_at_10") == 2.0 / 3);
  CHECK(found.at("recall_at_100") == 2.0 / 3);
}

TEST_CASE("queries without anything relevant count 0 where they are not left out") {
  const auto found = Data(some).metrics({.skips_unanswerable = false});
  CHECK(found.at("map") == ((1.0 / 2 + 2.0 / 3) / 2 + 1) / 4);
  CHECK(found.at("mrr") == 1.5 / 4);
}

TEST_CASE("a query's best candidate is its answer from the threshold on, of equals the first") {
  const Data data(some);
  const auto found = data.metrics({.threshold = 0.5});  // of p and q, wrong both; p, q and s have an answer
  CHECK(found.at("precision") == 0);
  CHECK(found.at("recall") == 0);
  CHECK(found.at("f1") == 0);
  CHECK(found.at("best_f1") == 0);
  auto other = some;
  other[1].scores = {0.25f, 0.5f};
  const auto better = Data(other).metrics({.threshold = 0.5});
  CHECK(better.at("precision") == 0.5);
  CHECK(better.at("recall") == 1.0 / 3);
  CHECK(better.at("f1") == Approx(0.4).epsilon(1e-15));
  CHECK(better.at("best_f1") == better.at("f1"));
  CHECK(better.at("best_f1_threshold") == 0.5);  // the score of q's answer; p's is wrong at any threshold
  CHECK(Data(other).metrics({.threshold = 3.5}).at("precision") == 0);
}

TEST_CASE("the listwise loss of an evaluation is the mean over queries with a relevant candidate") {
  double loss = 0;
  Data(some).metrics({.has_list_loss = true}, &loss);
  const double total = std::exp(3.0) + std::exp(1.0) + std::exp(2.0);
  CHECK(loss == Approx((std::log(total) - 1.5 + std::log(2.0)) / 2).epsilon(1e-14));
}

TEST_CASE("a score that is no number makes all metrics NaN") {
  auto broken = some;
  broken[2].scores[1] = std::nanf("");
  for (const auto& [name, value] : Data(broken).metrics({})) {
    INFO(name);
    CHECK(std::isnan(value));
  }
}

TEST_CASE("shards without ids cannot be ranked") {
  const Data data(some, false);
  const data::ShardReader reader(data.options);
  config::Task task;
  task.name = "answer_ranking";
  std::mutex hdf5;
  CHECK_THROWS_WITH(objectives::named(task.name).results({task, reader, {}, {}, 1, {}, false, nullptr, hdf5}),
                    ContainsSubstring("it holds no texts"));
}
