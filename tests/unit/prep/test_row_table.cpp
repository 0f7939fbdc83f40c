// Labels, filters and splits of the first pass over the text.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "unit/prep/csv_text.hpp"

using namespace bert_hpc::prep;
using bert_hpc::core::Error;
using bert_hpc::test::CsvText;
using Catch::Matchers::ContainsSubstring;

namespace {

/// `count` rows of each label, interleaved.
std::string table(const std::vector<std::pair<std::string, int>>& labels) {
  std::string text = "text,label\n";
  bool more = true;
  for (int round = 0; more; ++round) {
    more = false;
    for (const auto& [label, count] : labels) {
      if (round >= count) continue;
      more = true;
      text.append("some text,").append(label).append("\n");
    }
  }
  return text;
}

std::vector<std::int64_t> in_split(const RowTable& rows, RowStatus split, std::int32_t label) {
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < rows.status.size(); ++i) {
    if (rows.status[i] == split && rows.classes[i] == label) found.push_back(static_cast<std::int64_t>(i));
  }
  return found;
}

}  // namespace

TEST_CASE("splits keep each label's share, exactly, and depend on the seed alone") {
  CsvText text(table({{"b", 1000}, {"a", 100}, {"c", 3}}));
  const RowTable rows = text.scan();
  CHECK(rows.label_names == std::vector<std::string>{"a", "b", "c"});
  CHECK(rows.label_rows == std::vector<std::int64_t>{100, 1000, 3});
  CHECK(in_split(rows, RowStatus::train, 1).size() == 800);
  CHECK(in_split(rows, RowStatus::validation, 1).size() == 100);
  CHECK(in_split(rows, RowStatus::test, 1).size() == 100);
  CHECK(in_split(rows, RowStatus::train, 0).size() == 80);
  CHECK(in_split(rows, RowStatus::test, 0).size() == 10);
  CHECK(in_split(rows, RowStatus::train, 2).size() == 2);
  CHECK(text.scan().status == rows.status);
  text.config.split.seed = 2;
  const RowTable other = text.scan();
  CHECK(other.status != rows.status);
  CHECK(other.counts() == rows.counts());
}

TEST_CASE("a split of fraction zero stays empty with any rounding") {
  for (int count = 1; count < 40; ++count) {
    CsvText text(table({{"a", count}}));
    text.config.split = {.train = 0.5, .validation = 0.5, .test = 0};
    CHECK(text.scan().counts()[2] == 0);
    text.config.split = {.train = 0, .validation = 0.25, .test = 0.75};
    CHECK(text.scan().counts()[0] == 0);
    text.config.split = {.train = 0.75, .validation = 0, .test = 0.25};
    CHECK(text.scan().counts()[1] == 0);
  }
}

TEST_CASE("rare labels leave, the most frequent stay, ties by name") {
  CsvText text(table({{"b", 5}, {"a", 5}, {"d", 7}, {"c", 1}}));
  text.config.filter.min_rows_per_label = 2;
  RowTable rows = text.scan();
  CHECK(rows.label_names == std::vector<std::string>{"a", "b", "d"});
  CHECK(rows.counts()[static_cast<std::size_t>(RowStatus::rare_label)] == 1);
  text.config.filter.most_frequent_labels = 2;
  rows = text.scan();
  CHECK(rows.label_names == std::vector<std::string>{"a", "d"});
  CHECK(rows.counts()[static_cast<std::size_t>(RowStatus::rare_label)] == 6);
  CHECK(in_split(rows, RowStatus::train, 1).size() == 6);  // round(0.8 · 7)
}

TEST_CASE("labels that all are integers are numbered by their value, others by name") {
  const auto names = [](const std::vector<std::string>& labels) {
    std::vector<std::pair<std::string, int>> rows;
    for (const std::string& label : labels) rows.emplace_back(label, 2);
    return CsvText(table(rows)).scan().label_names;
  };
  using Names = std::vector<std::string>;
  CHECK(names({"10", "0", "-1", "2", "11", "1"}) == Names{"-1", "0", "1", "2", "10", "11"});
  // Another spelling may mean another thing: these are names.
  CHECK(names({"10", "2", "01"}) == Names{"01", "10", "2"});
  CHECK(names({"10", "2", "+1"}) == Names{"+1", "10", "2"});
  CHECK(names({"10", "2", "1.0"}) == Names{"1.0", "10", "2"});
  CHECK(names({"10", "2", "x"}) == Names{"10", "2", "x"});
  CHECK(names({"10", "2", "99999999999999999999"}) == Names{"10", "2", "99999999999999999999"});
  // Rows that are left out do not count.
  CsvText text(table({{"10", 3}, {"9", 3}, {"?", 1}}));
  text.config.filter.min_rows_per_label = 2;
  CHECK(text.scan().label_names == Names{"9", "10"});
}

TEST_CASE("labels given by the user keep their order, others are left out") {
  CsvText text(table({{"b", 5}, {"a", 5}, {"d", 7}}));
  text.config.task.labels = {"d", "none", "a"};
  const RowTable rows = text.scan();
  CHECK(rows.label_names == text.config.task.labels);
  CHECK(rows.label_rows == std::vector<std::int64_t>{7, 0, 5});
  CHECK(rows.counts()[static_cast<std::size_t>(RowStatus::unlisted_label)] == 5);
}

TEST_CASE("rows that lack something are left out with a reason, or refused") {
  CsvText text("text,label\nx,a\n,a\n  ,a\ny,\nz\nlong text,a\n");
  text.config.filter.max_characters = 8;
  text.config.filter.max_rejected = 1;
  const RowTable rows = text.scan();
  using enum RowStatus;
  CHECK(is_kept(rows.status[0]));
  CHECK(std::vector<RowStatus>(rows.status.begin() + 1, rows.status.end()) ==
        std::vector<RowStatus>{empty_text, empty_text, empty_label, missing_column, too_many_characters});
  text.config.filter.drop_missing = false;
  CHECK_THROWS_WITH(text.scan(), ContainsSubstring("row 2, line 3: the text is empty") &&
                                     ContainsSubstring("row 5, line 6: the row has no column \"label\""));
}

TEST_CASE("rows with more columns than the header are left out by that name") {
  CsvText text("id,text,label\n5,x,a\n6,too,many,cols\n7,z,a\n");
  const RowTable rows = text.scan();
  CHECK(rows.status[1] == RowStatus::extra_columns);
  CHECK(rows.label_names == std::vector<std::string>{"a"});
  SourceRow row;
  row.problem = "has 4 columns, the header 3";
  CHECK(describe_reject(RowStatus::extra_columns, row, text.config) == "the row has 4 columns, the header 3");
  text.config.source.extra_columns = true;
  CHECK(text.scan().label_names == std::vector<std::string>{"a", "many"});
}

TEST_CASE("regression labels are finite numbers") {
  CsvText text("text,label\nx,6.5\nx,+3\nx,1e2\nx,abc\nx,nan\nx,1e999\nx,7 of 9\nx,-0.5 \n");
  text.config.task.name = "regression";
  const RowTable rows = text.scan();
  std::vector<float> kept;
  for (std::size_t i = 0; i < rows.status.size(); ++i) {
    if (is_kept(rows.status[i])) kept.push_back(rows.values[i]);
  }
  CHECK(kept == std::vector<float>{6.5f, 3, 100, -0.5f});
}

TEST_CASE("several label columns are numbers, of which some may be missing in a row") {
  CsvText text("text,a,b,c\nx,6.5,,-1\nx,,,\nx,1,2,3\nx,1,poor,3\nx,, 7 ,\nx,\"1\x1F 2\",3,4\nx,1,2\n");
  text.config.task.name = "regression";
  text.config.source.label.clear();
  text.config.source.label_columns = {"a", "b", "c"};
  text.config.filter.max_rejected = 1;
  text.config.split.stratify = false;
  const RowTable rows = text.scan();
  CHECK(rows.label_names == std::vector<std::string>{"a", "b", "c"});
  CHECK(rows.label_rows == std::vector<std::int64_t>{2, 2, 2});
  using enum RowStatus;
  const std::vector<RowStatus> rejects = {empty_label, no_number, no_number, missing_column};
  CHECK(std::vector{rows.status[1], rows.status[3], rows.status[5], rows.status[6]} == rejects);
  CHECK_THAT(rows.first_rejects[static_cast<std::size_t>(no_number)],
             ContainsSubstring("row 4, line 5") && ContainsSubstring("(\"poor\")"));
  REQUIRE(rows.values.size() == 3 * rows.status.size());
  constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> expected[] = {{6.5f, unknown, -1}, {1, 2, 3}, {unknown, 7, unknown}};
  const std::size_t kept[] = {0, 2, 4};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(is_kept(rows.status[kept[i]]));
    for (std::size_t c = 0; c < 3; ++c) {
      const float found = rows.values[3 * kept[i] + c], value = expected[i][c];
      CHECK((found == value || (std::isnan(found) && std::isnan(value))));
    }
  }
}

TEST_CASE("an error states the reason where no row is left") {
  CsvText text("text,label\n,a\nx,\n");
  CHECK_THROWS_WITH(text.scan(), ContainsSubstring("1 row: the text is empty") && ContainsSubstring("label is empty"));
}

TEST_CASE("a label may end before a separator, and malformed bytes in it become U+FFFD") {
  CsvText text("text,label\nx,DESC:manner\nx,DESC:def\nx,\xFF\n");
  text.config.source.label_separator = std::string(1, ':');
  CHECK(text.scan().label_names == std::vector<std::string>{"DESC", "\xEF\xBF\xBD"});
}

TEST_CASE("a listed label that no row has is reported with the one that was probably meant") {
  CsvText text(table({{"human", 157}, {"gpt", 50}, {"x", 30}}));
  text.config.task.labels = {"Human", "gpt", "none"};
  const RowTable rows = text.scan();
  CHECK(rows.absent_labels == std::vector<std::string>{"Human", "none"});
  CHECK(rows.unlisted_labels == std::map<std::string, std::int64_t>{{"human", 157}, {"x", 30}});
  const auto reported = warnings(rows, text.config);
  REQUIRE(reported.size() == 3);
  CHECK(reported[0] == "no row has the label \"Human\" of [task] labels; did you mean \"human\", which 157 rows have?");
  CHECK(reported[1] == "no row has the label \"none\" of [task] labels.");
  CHECK(reported[2] == "only one class: all rows have the label \"gpt\".");
  text.config.task.labels = {"human", "Human", "gpt"};  // listed itself
  CHECK_THAT(warnings(text.scan(), text.config).front(), ContainsSubstring("did you mean \"human\", which 157 rows"));
  text.config.task.labels = {"gpt", "human", "x"};
  CHECK(warnings(text.scan(), text.config).empty());
}

TEST_CASE("numbers beside names are reported, unless [task] labels lists them") {
  CsvText text(table({{"0", 40}, {"1", 50}, {"good", 30}}));
  const auto reported = warnings(text.scan(), text.config);
  REQUIRE(reported.size() == 1);
  CHECK(reported[0] ==
        "some labels are numbers and others are names (label, rows): \"0\" 40 and \"1\" 50; \"good\" 30: each is a "
        "label of its own. "
        "If that is right, list them in [task] labels, which ends this warning.");
  text.config.task.labels = {"0", "1", "good"};
  CHECK(warnings(text.scan(), text.config).empty());
  CsvText numbers(table({{"0", 40}, {"1", 50}}));
  CHECK(warnings(numbers.scan(), numbers.config).empty());
}

TEST_CASE("labels that only files of another split have are reported with their rows") {
  CsvText text(table({{"a", 50}, {"b", 50}}));
  const CsvText more(table({{"a", 5}, {"new", 2}})), most(table({{"b", 1}, {"x", 1}, {"y", 3}}));
  text.config.split = {.train = 1, .validation = 0, .test = 0};
  text.config.source.validation_files = more.config.source.files;
  text.config.source.test_files = most.config.source.files;
  const auto reported = warnings(text.scan(), text.config);
  REQUIRE(reported.size() == 2);
  CHECK(reported[0] ==
        "[source] validation_files have a label that no training row has, so no model can learn it (label, rows): "
        "\"new\" 2.");
  CHECK(reported[1] ==
        "[source] test_files have 2 labels that no training row has, so no model can learn them (label, rows): \"x\" 1 "
        "and \"y\" 3.");
}

TEST_CASE("splits that were asked for and are empty are reported, with the reason") {
  std::vector<std::pair<std::string, int>> each;
  for (char name = 'a'; name <= 'z'; ++name) each.emplace_back(std::string(1, name), 1);
  CsvText text(table(each));
  auto reported = warnings(text.scan(), text.config);
  REQUIRE(reported.size() == 2);
  CHECK(reported[0] == "26 of 26 labels have only one row: is [source] label = \"label\" the right column?");
  CHECK(reported[1] ==
        "[split] validation = 0.1 and test = 0.1 got no rows, so these splits are missing: stratify divides each label "
        "separately, and every label has too few rows. Set [split] stratify = false, or check [source] label = "
        "\"label\".");
  text.config.split.stratify = false;
  CHECK(warnings(text.scan(), text.config).size() == 1);
  text.config.split = {.train = 1, .validation = 0, .test = 0};
  CHECK(warnings(text.scan(), text.config).size() == 1);

  const CsvText unread("text,label\n,a\n");
  CsvText files(table({{"a", 50}, {"b", 50}}));
  CHECK(warnings(files.scan(), files.config).empty());
  files.config.source.test_files = unread.config.source.files;
  files.config.split.test = 0;
  reported = warnings(files.scan(), files.config);
  REQUIRE(reported.size() == 1);
  CHECK(reported[0] == "there is no test split: all rows of [source] test_files are rejected.");
}

TEST_CASE("where no row is left the first of each reason is reported") {
  CsvText text("text,label\n,a\nx,\ny,b\n,b\n");
  text.config.task.labels = {"a"};
  CHECK_THROWS_WITH(text.scan(), ContainsSubstring("2 rows: the text is empty (the first is ") &&
                                     ContainsSubstring("row 1, line 2)\n  1 row: ") &&
                                     ContainsSubstring("1 row: the label is empty (the first is ") &&
                                     ContainsSubstring("row 2, line 3)") &&
                                     ContainsSubstring("row 3, line 4: the label is not in [task] labels (\"b\"))"));
}

TEST_CASE("errors for JSON rows without a key list the row's keys; null is a missing value") {
  CsvText text("{\"text\":\"x\",\"label\":\"a\"}\n{\"text\":null,\"label\":\"a\"}\n{\"text\":\"x\",\"label\":null}\n");
  text.config.source.format = "jsonl";
  text.config.filter.max_rejected = 1;
  using enum RowStatus;
  RowTable rows = text.scan();
  CHECK(std::vector<RowStatus>(rows.status.begin() + 1, rows.status.end()) ==
        std::vector<RowStatus>{empty_text, empty_label});
  CHECK(rows.first_rejects[static_cast<std::size_t>(missing_column)].empty());
  text.config.source.text = {"txt"};
  const std::string words =
      "row 1, line 1: the row has no column \"txt\"; its keys are \"label\" and \"text\"; did you mean \"text\"?";
  CHECK_THROWS_WITH(text.scan(), ContainsSubstring("3 rows: a column is missing") && ContainsSubstring(words));
  text.config.source.text = {"text"};
  text.config.task.name = "masked_lm";
  CHECK(text.scan().counts()[static_cast<std::size_t>(empty_text)] == 1);
}

TEST_CASE("bytes that are not UTF-8 are counted, with the location of the first one and a remedy") {
  const std::string rows = "text,label\nplain,a\ncaf\xE9,b\nna\xC3\xAFve,a\n\xFF,b\n\xFF,\n";
  CsvText text(rows);
  const RowTable table = text.scan();
  CHECK(table.malformed_rows == 2);
  CHECK_THAT(warnings(table, text.config).front(), ContainsSubstring("2 rows hold bytes that are not UTF-8") &&
                                                       ContainsSubstring("row 2, line 3") &&
                                                       ContainsSubstring("encoding = \"latin-1\""));
  text.config.source.encoding = "latin-1";
  CHECK(text.scan().malformed_rows == 0);
  CsvText json("{\"text\":\"caf\xE9\",\"label\":\"a\"}\n{\"text\":\"x\",\"label\":\"a\"}\n");
  json.config.source.format = "jsonl";
  CHECK(json.scan().malformed_rows == 1);
}

TEST_CASE("at most ten labels are shown") {
  CHECK(labels_text({{"a", 1200}}) == "\"a\" 1,200");
  CHECK(labels_text({{"a", 2}, {"b\n", 1}}) == "\"a\" 2 and \"b\\n\" 1");
  std::vector<std::pair<std::string, std::int64_t>> many(12, {"x", 1});
  CHECK(labels_text(many).ends_with("\"x\" 1 and 2 more"));
  many.resize(10);
  CHECK(labels_text(many).ends_with("\"x\" 1 and \"x\" 1"));
}
