#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>

#include "app/engine/corpus_search.hpp"
#include "app/engine/search_texts.hpp"
#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;
using app::FoundDocuments;
using app::TextRoles;
using Numbers = std::vector<std::int64_t>;

TEST_CASE("of a search each row's first text is a query, and the others or the only one are documents") {
  const Numbers rows{4, 4, 4, 9, 2, 2};
  const TextRoles roles = app::text_roles(rows, true, "a.h5");
  CHECK(roles.queries == Numbers{0, 3, 4});
  CHECK(roles.documents == Numbers{1, 2, 3, 5});
  CHECK(app::index_in_row(rows, 2) == 2);
  CHECK(app::index_in_row(rows, 4) == 0);
  const Numbers alone{0, 1, 2};
  CHECK(app::text_roles(alone, false, "a.h5").queries == alone);
  CHECK(app::text_roles(alone, false, "a.h5").documents == alone);
  CHECK_THROWS_WITH(app::text_roles(rows, false, "a.h5"),
                    Catch::Matchers::ContainsSubstring("a.h5: row 4 of the text was cut into windows"));
}

TEST_CASE("names of a search's texts are those of rows, or their numbers") {
  const Numbers rows{4, 4, 4, 9};
  data::NameList names;
  CHECK(app::text_name(names, rows, 1) == "4");
  CHECK(app::text_name(names, rows, 2) == "4/2");
  for (const char* const name : {"q", "q", "q", "z"}) names.add(name);
  CHECK(app::text_name(names, rows, 2) == "q/2");
  CHECK(app::text_name(names, rows, 3) == "z");
}

TEST_CASE("rows of pairs say that the second text is relevant to the first") {
  const Numbers rows{4, 4, 4, 9, 2, 2};
  const TextRoles roles = app::text_roles(rows, true, "a.h5");
  CHECK(app::paired_queries(rows, roles) == std::vector<std::size_t>{0, 2});
  const std::vector<app::QueryLevels> levels = app::levels_of_rows(rows, roles);
  REQUIRE(levels.size() == 3);
  CHECK(levels[0].level_of(0) == 1);
  CHECK(levels[0].level_of(1) == 0);  // a negative
  CHECK_FALSE(levels[1].is_judged);
  CHECK(levels[2].level_of(3) == 1);
  CHECK(levels[2].ideal == Numbers{1});
}

TEST_CASE("judgements become levels of the corpus' documents") {
  const score::Judgements judgements{{"q1", {{"a", 2}, {"b", 0}, {"x", 1}}}, {"q7", {{"c", 1}}}};
  const std::vector<std::string> queries{"q1", "q2"}, documents{"c", "b", "a"};
  const auto named = [](const std::vector<std::string>& names) {
    return app::NamedTexts{std::ssize(names), [&names](std::int64_t i) { return names[static_cast<std::size_t>(i)]; }};
  };
  const app::JudgedQueries judged = app::levels_of_judgements(judgements, named(queries), named(documents));
  CHECK(judged.queries == 1);
  CHECK(judged.relevant == 1);
  CHECK(judged.absent == 1);
  CHECK(judged.first_absent == "\"x\" of query \"q1\"");
  CHECK(judged.levels[0].level_of(2) == 2);
  CHECK(judged.levels[0].level_of(1) == 0);
  CHECK(judged.levels[0].ideal == Numbers{2, 1, 0});
  CHECK_FALSE(judged.levels[1].is_judged);
}

TEST_CASE("scores of a search are means over judged queries") {
  app::SearchScores scores;
  scores.add(Numbers{0, 1}, Numbers{1, 1});  // at rank 2, one of two
  scores.add(Numbers{1}, Numbers{1});
  const auto means = scores.means(100);
  const auto mean = [&](const std::string& name) {
    return std::find_if(means.begin(), means.end(), [&](const auto& one) { return one.first == name; })->second;
  };
  CHECK(mean("mrr_at_10") == Catch::Approx(0.75));
  CHECK(mean("map") == Catch::Approx((0.25 + 1) / 2));
  CHECK(mean("recall_at_10") == Catch::Approx(0.75));
  CHECK(mean("precision_at_1") == Catch::Approx(0.5));
  CHECK(means.size() == 7);
  CHECK(scores.means(99).size() == 6);
  CHECK(scores.means(9).size() == 3);
  // Gains 1 / log2(3) of 1 + 1 / log2(3).
  CHECK(mean("ndcg_at_10") == Catch::Approx((0.38685280723454163 + 1) / 2));
}

TEST_CASE("blocks of a corpus are divided without gaps") {
  for (const std::int64_t documents : {1, 4096, 4097, 100000}) {
    for (const int ranks : {1, 3, 8}) {
      std::int64_t next = 0;
      for (int r = 0; r < ranks; ++r) {
        const app::BlockRange blocks = app::blocks_of_rank(documents, r, ranks);
        CHECK(blocks.first == next);
        next = blocks.last;
      }
      CHECK(next == (documents + app::search_block - 1) / app::search_block);
    }
  }
}

TEST_CASE("merged lists are sorted, and of equal scores the lower number comes first") {
  constexpr float none = -std::numeric_limits<float>::infinity();
  FoundDocuments found{{1, 2, -1, 5, 6, 7}, {0.9f, 0.5f, none, 0.3f, 0.2f, 0.1f}};
  const FoundDocuments more{{10, 11, 12, 13, -1, -1}, {0.9f, 0.7f, 0.5f, 0.2f, none, none}};
  app::merge_found(3, more, found);
  CHECK(found.numbers == std::vector<std::int32_t>{1, 10, 11, 5, 6, 13});
  CHECK(found.scores == std::vector<float>{0.9f, 0.9f, 0.7f, 0.3f, 0.2f, 0.2f});
}
