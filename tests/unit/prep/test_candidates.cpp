// Rows of queries and their candidates: MS MARCO's files, judgements, and what cannot be a candidate.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/read_config.hpp"
#include "bert_hpc/prep/scan_rows.hpp"
#include "support/temporary_file.hpp"

using namespace bert_hpc::prep;
using bert_hpc::test::TemporaryFile;
using Catch::Matchers::ContainsSubstring;

namespace {

PrepConfig config(const std::string& source, const std::string& more = "") {
  return parse_prep_config("source = {" + source +
                               "}\ntokenizer = {train_size = 100}\ntask = {name = \"answer_ranking\"}\n"
                               "output = {directory = \"out\"}\n" +
                               more,
                           "prep.toml", {});
}

std::string files(const char* format, const TemporaryFile& file, const std::string& more = "") {
  return std::string("format = \"") + format + "\", files = \"" + file.path() + "\"" + more;
}

/// "query|id|text|text_pair|label" of each row, or what is wrong with it.
std::vector<std::string> rows(const PrepConfig& input) {
  RowStream stream(input);
  SourceRow row;
  std::vector<std::string> all;
  while (stream.next(row)) {
    std::string text;
    for (const std::string_view part : {row.query, row.id, row.text, row.text_pair, row.label}) {
      text.append(text.empty() ? "" : "|").append(part);
    }
    all.push_back(row.problem.empty() ? text : row.problem);
  }
  return all;
}

using Rows = std::vector<std::string>;

const std::string top = "7\t70\thow far\tvery far\n7\t71\thow far\tnear\n8\t70\twhy\tvery far\n7\t72\thow far\tso so\n";

/// The status of each row, with one word in all texts.
std::vector<RowStatus> statuses(const std::string& content) {
  const TemporaryFile file(content);
  const RowTable table = scan_rows(config(files("tsv", file, ", query_id = \"q\", id = \"p\""),
                                          "filter = {max_rejected = 1}\nsplit = {train = 1}\n"));
  return table.status;
}

}  // namespace

TEST_CASE("MS MARCO's triples are two rows of one query each, whose ids count in their file alone") {
  const TemporaryFile file("how far\tvery far\t\"near\nwhy\tso\tno\n");
  const PrepConfig input = config(files("msmarco", file));
  CHECK(input.split.group == "query");
  CHECK(rows(input) == Rows{"1|1|how far|very far|1", "1|2|how far|\"near|0", "2|1|why|so|1", "2|2|why|no|0"});
  RowStream stream(input);
  SourceRow row;
  REQUIRE(stream.next(row));
  REQUIRE(stream.next(row));
  CHECK(row.own_query);
  CHECK(row.number == 2);
  CHECK(row.line == 1);
}

TEST_CASE("MS MARCO's candidates have the levels of qrels, 0 of what is not judged") {
  const TemporaryFile file(top), qrels("7 0 71 1\n7\t0\t99\t2\n9 0 1 1\n8 0 5 0\n");
  const PrepConfig input =
      config(files("msmarco", file, ", qrels = \"" + qrels.path() + "\""), "split = {validation = 1}\n");
  CHECK(rows(input) ==
        Rows{"7|70|how far|very far|0", "7|71|how far|near|1", "8|70|why|very far|0", "7|72|how far|so so|0"});
  const RowTable table = scan_rows(input);
  CHECK(table.levels == std::vector<std::int32_t>{0, 1, 0, 0});
  CHECK(table.queries[0] == table.queries[3]);
  CHECK(table.queries[0] != table.queries[2]);
  REQUIRE(table.further_levels.size() == 1);
  CHECK(table.further_levels.at(table.queries[0]) == std::vector<std::int32_t>{2});
  CHECK(table.absent_queries == 1);
  CHECK(table.first_absent == qrels.path() + ", line 3");
  CHECK_THAT(warnings(table, input).front(), ContainsSubstring("1 query of [source] qrels without any candidate"));
}

TEST_CASE("files that are not MS MARCO's, and broken lines") {
  const TemporaryFile two("a\tb\n"), uneven("q\tp\tn\nq\tp\nq\tp\tn\tm\nr\tp\tn\n");
  CHECK_THROWS_WITH(rows(config(files("msmarco", two))), ContainsSubstring("line 1: has 2 columns between tabs"));
  const Rows found = rows(config(files("msmarco", uneven)));
  REQUIRE(found.size() == 8);
  CHECK(found[2] == "has 2 columns between tabs, the first 3");
  CHECK(found[5] == "has 4 columns between tabs, the first 3");
  CHECK(found[6] == "4|1|r|p|1");
  const TemporaryFile file(top);
  CHECK_THROWS_WITH(rows(config(files("msmarco", file))), ContainsSubstring("has no column \"label\""));
  const auto with = [&](const std::string& judgements) {
    const TemporaryFile qrels(judgements);
    rows(config(files("msmarco", file, ", qrels = \"" + qrels.path() + "\"")));
  };
  CHECK_THROWS_WITH(with("7 0 71\n"), ContainsSubstring("line 1: \"7 0 71\" is no judgement"));
  CHECK_THROWS_WITH(with("7 0 71 1\n\n7 0 72 1.5\n"), ContainsSubstring("line 3: \"7 0 72 1.5\" is no judgement"));
  CHECK_THROWS_WITH(with("7 0 71 1\n7 0 71 0\n"), ContainsSubstring("line 2: the query has this passage already"));
}

TEST_CASE("what cannot be a candidate is rejected") {
  const std::string header = "q\tp\tquery\tpassage\tlabel\n";
  CHECK(statuses(header + "1\ta\tx\ty\t0\n1\tb\tx\ty\t1\n1\tb\tx\tz\t1\n2\tb\tx\ty\t2.0\n") ==
        std::vector<RowStatus>{RowStatus::train, RowStatus::train, RowStatus::repeated_id, RowStatus::train});
  CHECK(
      statuses(header + "1\ta\tx\ty\t0\n1\tb\tother\ty\t1\n1\tc c\tx\ty\t1\n\td\tx\ty\t1\n") ==
      std::vector<RowStatus>{RowStatus::train, RowStatus::other_query, RowStatus::unusable_id, RowStatus::unusable_id});
  CHECK(statuses(header + "1\ta\tx\ty\t0\n1\tb\tx\ty\t-1\n1\tc\tx\ty\t0.5\n1\td\tx\ty\tyes\n1\te\tx\ty\t\n") ==
        std::vector<RowStatus>{RowStatus::train, RowStatus::no_number, RowStatus::no_number, RowStatus::no_number,
                               RowStatus::empty_label});
}

TEST_CASE("candidates of a query stay in one split, with ids or by the query's text") {
  std::string content = "q\tquery\tpassage\tlabel\tother\n";
  for (int i = 0; i < 200; ++i) {
    const std::string query = std::to_string(i % 40), number = std::to_string(i);
    content.append("q" + query + "\twhat " + query + "\tpassage " + number + "\t" + std::to_string(i % 2) + "\t" +
                   number + "\n");
  }
  const TemporaryFile file(content);
  for (const char* more : {", query_id = \"q\"", ""}) {
    const PrepConfig input = config(files("tsv", file, more));
    CHECK(input.split.group == (*more == '\0' ? "query" : "q"));
    const RowTable table = scan_rows(input);
    std::set<RowStatus> splits(table.status.begin(), table.status.end());
    CHECK(splits.size() == 3);
    for (std::size_t row = 0; row < 160; ++row) {
      CHECK(table.status[row] == table.status[row + 40]);
      CHECK(table.queries[row] == table.queries[row + 40]);
    }
  }
  CHECK_THROWS_WITH(scan_rows(config(files("tsv", file, ", query_id = \"q\""), "split = {group = \"other\"}\n")),
                    ContainsSubstring("[split] group = \"other\" parts the candidates of a query"));
}

TEST_CASE("ids of files for different splits have nothing to do with each other") {
  const TemporaryFile train("q\tp\tquery\tpassage\tlabel\n1\ta\tx\ty\t1\n"),
      test("q\tp\tquery\tpassage\tlabel\n1\ta\tother\ty\t1\n");
  const RowTable table =
      scan_rows(config(files("tsv", train, ", test_files = \"" + test.path() + "\", query_id = \"q\", id = \"p\"")));
  CHECK(table.status == std::vector<RowStatus>{RowStatus::train, RowStatus::test});
  CHECK(table.queries[0] != table.queries[1]);
}

TEST_CASE("keys that candidates cannot have") {
  const TemporaryFile file("query\tpassage\tlabel\n");
  CHECK_THROWS_WITH(config(files("tsv", file, ", text_pair = []")), ContainsSubstring("reads a query in text"));
  CHECK_THROWS_WITH(config(files("tsv", file, ", qrels = \"x\"")), ContainsSubstring("qrels is for format msmarco"));
  CHECK_THROWS_WITH(config(files("tsv", file), "split = {group = \"\"}\n"),
                    ContainsSubstring("candidates of a query must stay in one split"));
  CHECK_THROWS_WITH(parse_prep_config("source = {format = \"tsv\", files = \"x\", query_id = \"q\"}\n"
                                      "tokenizer = {train_size = 100}\ntask = {name = \"classification\"}\n"
                                      "output = {directory = \"out\"}\n",
                                      "prep.toml", {}),
                    ContainsSubstring("query_id is for answer_ranking"));
}
