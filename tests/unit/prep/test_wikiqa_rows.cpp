// Rows of WikiQA's tables, with and without labels, and files in other formats.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/check.hpp"
#include "bert_hpc/prep/read_config.hpp"
#include "bert_hpc/prep/scan_rows.hpp"
#include "support/temporary_file.hpp"

using namespace bert_hpc::prep;
using bert_hpc::test::TemporaryFile;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string header = "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence";
const std::string labelled = header +
                             "\tLabel\r\n"
                             "Q1\thow are caves formed?\tD1\t\tD1-0\tA \"partly submerged cave.\t0\r\n"
                             "Q1\thow are caves formed?\tD1\t\tD1-1\tThe ice \"melts\".\t1\r\n"
                             "Q2\t\"what\" is it\tD2\tCaves\tD2-0\tNothing\t0\r\n";

PrepConfig config(const std::string& file, const std::string& more = "") {
  return parse_prep_config("source = {format = \"wikiqa\", text = \"question\", text_pair = \"sentence\", files = \"" +
                               file +
                               "\"}\ntokenizer = {train_size = 100}\ntask = {name = \"classification\"}\n"
                               "output = {directory = \"out\"}\n" +
                               more,
                           "prep.toml", {});
}

std::vector<std::string> rows(const PrepConfig& input) {
  RowStream stream(input);
  SourceRow row;
  std::vector<std::string> all;
  while (stream.next(row)) {
    all.push_back(std::string(row.text) + '|' + std::string(row.text_pair) + '|' + std::string(row.label) + '|' +
                  std::string(row.group) + row.problem);
  }
  return all;
}

}  // namespace

TEST_CASE("WikiQA: quotes are ordinary characters, and a question groups its candidates") {
  const TemporaryFile file(labelled);
  const PrepConfig input = config(file.path());
  CHECK(input.split.group == "question_id");
  CHECK(input.label_column() == "label");
  CHECK(rows(input) == std::vector<std::string>{"how are caves formed?|A \"partly submerged cave.|0|Q1",
                                                "how are caves formed?|The ice \"melts\".|1|Q1",
                                                "\"what\" is it|Nothing|0|Q2"});
  CHECK(config(file.path(), "split = {group = \"\"}\n").split.group.empty());
  CHECK(resolved_toml(parse_prep_config(resolved_toml(input), "again", {})) == resolved_toml(input));
}

TEST_CASE("WikiQA: candidates of a question stay in one split") {
  std::string text = header + "\tLabel\n";
  for (int row = 0; row < 400; ++row) {
    const std::string number = std::to_string(row / 8);
    text.append("Q").append(number).append("\tq\tD\tt\tS\tsentence\t").append(row % 8 == 0 ? "1\n" : "0\n");
  }
  const TemporaryFile file(text);
  const RowTable table = scan_rows(config(file.path()));
  std::set<RowStatus> splits;
  for (std::size_t row = 0; row < 400; ++row) {
    splits.insert(table.status[row]);
    CHECK(table.status[row] == table.status[row / 8 * 8]);
  }
  CHECK(splits == std::set<RowStatus>{RowStatus::train, RowStatus::validation, RowStatus::test});
}

TEST_CASE("WikiQA: a file without labels can be prepared to be predicted") {
  const TemporaryFile file(header + "\nQ1\twhen\tD1\tCaves\tD1-0\tNow.\n");
  PrepConfig input = config(file.path());
  CHECK_THROWS_WITH(rows(input),
                    ContainsSubstring("has no column \"label\". The columns of WikiQA are \"question_id\""));
  input.split = {.train = 0, .validation = 0, .test = 1};
  find_labels(input);
  CHECK_FALSE(input.has_labels());
  CHECK(rows(input) == std::vector<std::string>{"when|Now.||"});
}

TEST_CASE("WikiQA: other tables are refused with a remedy") {
  const TemporaryFile other("question\tsentence\tlabel\na\tb\t1\n"), wide(header + "\tLabel\tMore\na\n");
  for (const TemporaryFile* file : {&other, &wide}) {
    CHECK_THROWS_WITH(rows(config(file->path())), ContainsSubstring("does not begin with the header of WikiQA, "
                                                                    "QuestionID, Question, ") &&
                                                      ContainsSubstring("set [source] format = \"tsv\"."));
  }
  const TemporaryFile file(labelled);
  PrepConfig input = config(file.path());
  input.source.text = {"sentense"};
  CHECK_THROWS_WITH(rows(input), ContainsSubstring("has no column \"sentense\" (did you mean \"sentence\"?)"));
}
