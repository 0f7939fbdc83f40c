// Rows of GLUE's files: each task's labelled and unlabelled layout, broken rows, and files that are none.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/check.hpp"
#include "bert_hpc/prep/read_config.hpp"
#include "support/temporary_file.hpp"

using namespace bert_hpc::prep;
using bert_hpc::test::TemporaryFile;
using Catch::Matchers::ContainsSubstring;

namespace {

PrepConfig config(const std::string& file, bool pairs, const std::string& task = "classification") {
  return parse_prep_config(
      "source = {format = \"glue\", files = \"" + file + "\"" + (pairs ? ", text_pair = \"text_pair\"" : "") +
          "}\ntokenizer = {train_size = 100}\ntask = {name = \"" + task + "\"}\noutput = {directory = \"out\"}\n",
      "prep.toml", {});
}

/// "text|text_pair|label" of each row, and what is wrong with it.
std::vector<std::string> rows(const PrepConfig& input) {
  RowStream stream(input);
  SourceRow row;
  std::vector<std::string> all;
  while (stream.next(row)) {
    all.push_back(std::string(row.text) + '|' + std::string(row.text_pair) + '|' + std::string(row.label) +
                  row.problem + (row.missing_column.empty() ? "" : " lacks " + row.missing_column));
  }
  return all;
}

/// Rows of a file that is to be predicted: all of it is test data.
std::vector<std::string> unlabelled_rows(const std::string& content, bool pairs) {
  const TemporaryFile file(content);
  PrepConfig input = config(file.path(), pairs);
  input.split = {.train = 0, .validation = 0, .test = 1};
  find_labels(input);
  CHECK_FALSE(input.has_labels());
  return rows(input);
}

std::vector<std::string> labelled_rows(const std::string& content, bool pairs) {
  const TemporaryFile file(content);
  return rows(config(file.path(), pairs));
}

using Rows = std::vector<std::string>;

}  // namespace

TEST_CASE("GLUE: single sentences, with quotes as ordinary characters") {
  CHECK(labelled_rows("gj04\t1\t\tBill \"broke\" it.\ncj99\t0\t*\t\"They drank.\n", false) ==
        Rows{"Bill \"broke\" it.||1", "\"They drank.||0"});                                          // CoLA
  CHECK(labelled_rows("sentence\tlabel\r\nthe \"power \t1\r\n", false) == Rows{"the \"power ||1"});  // SST-2
  CHECK(unlabelled_rows("index\tsentence\n0\tBill left.\n1\tLeft Bill.\n", false) ==
        Rows{"Bill left.||", "Left Bill.||"});  // CoLA and SST-2
}

TEST_CASE("GLUE: pairs") {
  CHECK(labelled_rows("\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t70\t71\tHe \"left.\tHe went.\r\n",
                      true) == Rows{"He \"left.|He went.|1"});
  CHECK(labelled_rows("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n7\t1\t2\tWhy?\tHow?\t0\n", true) ==
        Rows{"Why?|How?|0"});
  CHECK(labelled_rows("index\tquestion\tsentence\tlabel\n0\tWho?\tBell.\tnot_entailment\n", true) ==
        Rows{"Who?|Bell.|not_entailment"});
  CHECK(labelled_rows("index\tsentence1\tsentence2\tlabel\n0\tIt is.\tWas it?\tentailment\n", true) ==
        Rows{"It is.|Was it?|entailment"});  // RTE, WNLI
  const TemporaryFile scores(
      "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
      "0\tnews\tf\t2012\t1\ta\tb\tA plane.\tA jet.\t4.750\n");
  CHECK(rows(config(scores.path(), true, "regression")) == Rows{"A plane.|A jet.|4.750"});
}

TEST_CASE("GLUE: MNLI's label is gold_label, and a row without one is rejected") {
  const std::string header =
      "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
      "sentence2_parse\tsentence1\tsentence2";
  const std::string row = "\n0\t1\t2\tfiction\t( a )\t( b )\t(A)\t(B)\tOne.\tTwo.";
  CHECK(labelled_rows(header + "\tlabel1\tgold_label" + row + "\tneutral\tentailment", true) ==
        Rows{"One.|Two.|entailment"});
  CHECK(labelled_rows(header + "\tlabel1\tlabel2\tgold_label" + row + "\tneutral\tentailment\t-\n", true) ==
        Rows{"One.|Two.|-has no gold label: it is \"-\""});
  CHECK(unlabelled_rows(header + row + "\n", true) == Rows{"One.|Two.|"});
}

TEST_CASE("GLUE: pairs without labels") {
  CHECK(unlabelled_rows("index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tA.\tB.\n", true) == Rows{"A.|B.|"});
  CHECK(unlabelled_rows("id\tquestion1\tquestion2\n0\tA?\tB?\n", true) == Rows{"A?|B?|"});
  CHECK(unlabelled_rows("index\tquestion\tsentence\n0\tA?\tB.\n", true) == Rows{"A?|B.|"});
  CHECK(unlabelled_rows("index\tsentence1\tsentence2\n0\tA.\tB.\n", true) == Rows{"A.|B.|"});
}

TEST_CASE("GLUE: broken rows are named, not guessed") {
  const std::string header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";
  CHECK(labelled_rows(header + "7\t1\t2\tWhy?\n", true) == Rows{"Why?|| lacks text_pair"});
  CHECK_THAT(labelled_rows(header + "7\t1\t2\tWhy?\tHow?\t0\tmore\n", true).at(0),
             ContainsSubstring("has 7 columns, the header 6"));
}

TEST_CASE("GLUE: other tables and columns that a task lacks are refused") {
  for (const char* text : {"text\tlabel\na\t1\n", "a\t2\tb\tc\n", "3\tOne.\tTwo.\tentailment\n"}) {
    CHECK_THROWS_WITH(labelled_rows(text, false), ContainsSubstring("begins neither with a header of a GLUE task") &&
                                                      ContainsSubstring("set [source] format = \"tsv\"."));
  }
  CHECK_THROWS_WITH(labelled_rows("sentence\tlabel\na\t1\n", true),
                    ContainsSubstring("has no column \"text_pair\"") && ContainsSubstring("columns of GLUE are"));
  CHECK_THROWS_WITH(labelled_rows("index\tsentence\n0\ta\n", false), ContainsSubstring("has no column \"label\""));
}
