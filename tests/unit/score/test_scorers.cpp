// The list of scorers, the text of results, and one scorer with numbers computed by hand.
#include "bert_hpc/score/scorer.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/score/qrels.hpp"
#include "support/temporary_file.hpp"

using namespace bert_hpc;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// The numbers of a scorer for files with these contents.
nlohmann::json numbers(const char* name, const std::string& gold, const std::string& predictions) {
  const test::TemporaryFile first(gold), second(predictions);
  return nlohmann::json::parse(score::json_text(score::scorer(name).score({first.path(), second.path()})));
}

}  // namespace

TEST_CASE("each scorer is found by its name, and an unknown name lists all") {
  std::set<std::string_view> names;
  for (const score::Scorer& scorer : score::scorers()) {
    CHECK(names.insert(scorer.name).second);
    CHECK(&score::scorer(scorer.name) == &scorer);
    CHECK_FALSE(scorer.description.empty());
    CHECK(scorer.score != nullptr);
    CHECK_THROWS_MATCHES(score::scorer("Squad"), core::Error,
                         MessageMatches(ContainsSubstring(std::string(scorer.name))));
  }
}

TEST_CASE("results are JSON whose numbers give the same doubles, counts without a point") {
  const std::string text =
      score::json_text({.numbers = {{"third", 1.0 / 3.0}, {"one", 1.0}, {"tiny", 1e-300}, {"count", 12, true}}});
  CHECK(text == "{\n  \"third\": 0.3333333333333333,\n  \"one\": 1.0,\n  \"tiny\": 1e-300,\n  \"count\": 12\n}\n");
  CHECK(nlohmann::json::parse(text)["third"].get<double>() == 1.0 / 3.0);
  CHECK(score::json_text({}) == "{\n}\n");
}

TEST_CASE("trec: two queries by hand, one without a relevant document, one that is not judged") {
  const auto all =
      numbers("trec", "q1 0 a 1\nq1 0 b 0\nq1 0 c 2\nq2 0 a 0\n",
              "q1 Q0 a 1 3.0 run\nq1 Q0 b 2 2.0 run\nq1 Q0 c 3 1.0 run\nq2 Q0 a 1 1 run\nq9 Q0 a 1 1 run\n");
  CHECK(all["num_q"] == 2);
  CHECK(all["map"].get<double>() == Approx((1.0 + 2.0 / 3.0) / 2 / 2));
  CHECK(all["recip_rank"].get<double>() == Approx(0.5));
  CHECK(all["recall_5"].get<double>() == Approx(0.5));
  const double ideal = 2 + 1 / std::log2(3.0);
  CHECK(all["ndcg"].get<double>() == Approx((1 + 2 / std::log2(4.0)) / ideal / 2));
}

TEST_CASE("judgements are read in TREC's form and in BEIR's, with a header or without") {
  const score::Judgements expected{{"q1", {{"a", 1}, {"c", 2}}}, {"q2", {{"a", 0}}}};
  for (const char* const text :
       {"q1 0 a 1\nq1 0 c 2\nq2 0 a 0\n", "query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tc\t2\nq2\ta\t0\n",
        "q1\ta\t1\nq1\tc\t2\nq2\ta\t0\n"}) {
    CHECK(score::read_judgements(test::TemporaryFile(text).path()) == expected);
  }
  CHECK_THROWS_MATCHES(score::read_judgements(test::TemporaryFile("q1 a 1\nq1 0 c 2\n").path()), core::Error,
                       MessageMatches(ContainsSubstring("line 2")));
  CHECK_THROWS_MATCHES(score::read_judgements(test::TemporaryFile("q1 0 a 1\nq1 0 a 2\n").path()), core::Error,
                       MessageMatches(ContainsSubstring("a judgement of this document already")));
}

TEST_CASE("conll: a right, a wrong and a missed entity, per type and together") {
  const auto all =
      numbers("conll", "a B-PER\nb I-PER\nc O\n\nd B-LOC\ne O\n", "a B-PER\nb I-PER\nc B-LOC\n\nd O\ne O\n");
  CHECK(all["tokens"] == 5);
  CHECK(all["phrases"] == 2);
  CHECK(all["found"] == 2);
  CHECK(all["correct"] == 1);
  CHECK(all["accuracy"].get<double>() == Approx(60));
  CHECK(all["FB1"].get<double>() == Approx(50));
  CHECK(all["PER_FB1"].get<double>() == Approx(100));
  CHECK(all["LOC_recall"].get<double>() == Approx(0));
}

TEST_CASE("glue-cola: Matthews' correlation by hand") {
  // 3 right of 4: TP 2, TN 1, FP 1, FN 0: (2·1 − 1·0) / √(3·2·2·1)
  const auto all = numbers("glue-cola", "x\t1\t\ta\nx\t1\t\tb\nx\t0\t\tc\nx\t0\t\td\n",
                           "index\tprediction\n0\t1\n1\t1\n2\t0\n3\t1\n");
  CHECK(all.begin()->get<double>() == Approx(2 / std::sqrt(12.0)).margin(1e-12));
}
