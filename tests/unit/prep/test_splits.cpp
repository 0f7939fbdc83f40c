// Samples, groups, strata of numbers, and the share of broken rows that is too large.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/key_order.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "unit/prep/csv_text.hpp"

using namespace bert_hpc::prep;
using bert_hpc::test::CsvText;
using Catch::Matchers::ContainsSubstring;

namespace {

/// 1,000 rows with labels a, b, c, and `rows_each` rows of each value in the column "id"; groups are spread.
std::string grouped(int rows_each) {
  std::string text = "id,text,label\n";
  const int groups = 1000 / rows_each;
  for (int i = 0; i < 1000; ++i) {
    text.append("g").append(std::to_string(i % groups)).append(",words,").append(1, "abc"[i % 3]).append("\n");
  }
  return text;
}

std::int64_t kept(const RowTable& rows) {
  const auto counts = rows.counts();
  return counts[0] + counts[1] + counts[2];
}

std::int64_t count(const RowTable& rows, RowStatus status) {
  return rows.counts()[static_cast<std::size_t>(status)];
}

std::string refusal(const CsvText& text) {
  try {
    text.scan();
  } catch (const bert_hpc::core::Error& error) {
    CHECK(error.code() == bert_hpc::core::ExitCode::data);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("rows of one group go into one split, and splits have nearly the requested sizes") {
  for (const int rows_each : {1, 2, 8}) {
    CsvText text(grouped(rows_each));
    text.config.split.group = "id";
    const RowTable rows = text.scan();
    std::map<std::uint64_t, std::set<RowStatus>> splits;
    for (std::size_t i = 0; i < rows.status.size(); ++i) splits[rows.groups[i]].insert(rows.status[i]);
    CHECK(splits.size() == static_cast<std::size_t>(1000 / rows_each));
    for (const auto& [group, found] : splits) CHECK(found.size() == 1);
    CHECK(std::abs(count(rows, RowStatus::train) - 800) < rows_each);
    CHECK(std::abs(count(rows, RowStatus::test) - 100) < rows_each);
    CHECK(text.scan().status == rows.status);
    text.config.split.seed = 2;
    CHECK(text.scan().status != rows.status);
  }
}

TEST_CASE("rows without a group stay by themselves, rows without its column are rejected") {
  CsvText text("id,text,label\n,x,a\n,x,a\n,x,a\n,x,a\n");
  text.config.split = {.train = 0.5, .validation = 0.5, .test = 0};
  text.config.split.group = "id";
  CHECK(count(text.scan(), RowStatus::train) == 2);
  CsvText json("{\"text\":\"x\",\"label\":\"a\",\"id\":7}\n{\"text\":\"x\",\"label\":\"a\"}\n");
  json.config.source.format = "jsonl";
  json.config.split.group = "id";
  CHECK(count(json.scan(), RowStatus::missing_column) == 1);
}

TEST_CASE("files for a separate split need no group column") {
  const CsvText test("text,label\nx,a\n");
  CsvText text(grouped(2));
  text.config.split = {.train = 1, .validation = 0, .test = 0};
  text.config.split.group = "id";
  text.config.source.test_files = {test.path()};
  CHECK(count(text.scan(), RowStatus::test) == 1);
}

TEST_CASE("a sample is a share or a number of rows, drawn by the seed") {
  CsvText text(grouped(4));
  const RowTable all = text.scan();
  for (const double sample : {250.0, 0.25}) {
    text.config.filter.sample = sample;
    const RowTable rows = text.scan();
    CHECK(kept(rows) == 250);
    CHECK(count(rows, RowStatus::not_sampled) == 750);
    CHECK(rows.label_rows[0] + rows.label_rows[1] + rows.label_rows[2] == 250);
    CHECK(std::abs(count(rows, RowStatus::train) - 200) <= 1);
    CHECK(text.scan().status == rows.status);
  }
  const RowTable first = text.scan();
  text.config.split.seed = 2;
  CHECK(text.scan().status != first.status);
  text.config.filter.sample = 1;
  text.config.split.seed = 1;
  CHECK(text.scan().status == all.status);
  text.config.filter.sample = 5000;
  const RowTable more = text.scan();
  CHECK(more.status == all.status);
  CHECK_THAT(warnings(more, text.config).front(), ContainsSubstring("sample = 5,000 draws all"));
}

TEST_CASE("a sample takes whole groups and leaves files of other splits alone") {
  CsvText text(grouped(8));
  const CsvText test("text,label\nx,a\nx,a\nx,b\n");
  text.config.source.test_files = {test.path()};
  text.config.split = {.train = 1, .validation = 0, .test = 0};
  text.config.split.group = "id";
  text.config.filter.sample = 100;
  const RowTable rows = text.scan();
  CHECK(count(rows, RowStatus::test) == 3);
  CHECK(std::abs(count(rows, RowStatus::train) - 100) < 8);
  std::map<std::uint64_t, std::set<RowStatus>> drawn;
  for (std::size_t i = 0; i < 1000; ++i) drawn[rows.groups[i]].insert(rows.status[i]);
  for (const auto& [group, found] : drawn) CHECK(found.size() == 1);
}

TEST_CASE("labels that a small sample lacks are no classes") {
  CsvText text("text,label\nx,a\nx,b\nx,c\nx,d\n");
  text.config.filter.sample = 2;
  CHECK(text.scan().label_names.size() == 2);
}

TEST_CASE("stratified numbers: each split has the same share of small and large values") {
  std::string table = "text,label\n";
  for (int i = 0; i < 1000; ++i) table.append("x,").append(std::to_string(i * 37 % 1000)).append("\n");
  CsvText text(table);
  text.config.task.name = "regression";
  text.config.split.stratify = true;
  const RowTable rows = text.scan();
  std::map<int, int> tests;
  for (std::size_t i = 0; i < 1000; ++i) {
    if (rows.status[i] == RowStatus::test) ++tests[static_cast<int>(rows.values[i]) / 100];
  }
  CHECK(count(rows, RowStatus::test) == 100);
  CHECK(tests.size() == 10);
  for (const auto& [tenth, number] : tests) CHECK(number == 10);
}

TEST_CASE("a comma stands before the fraction of numbers where the input says so") {
  CsvText text("text;label\nx;3,25\nx;-4\nx;+0,5e1\nx;1.234,5\nx;2.5\nx;1,2,3\n");
  text.config.task.name = "regression";
  text.config.source.delimiter = ";";
  text.config.source.decimal = ",";
  text.config.split = {.train = 1, .validation = 0, .test = 0};
  const RowTable rows = text.scan();
  CHECK(std::vector<float>(rows.values.begin(), rows.values.begin() + 3) == std::vector<float>{3.25f, -4, 5});
  for (std::size_t i = 3; i < 6; ++i) CHECK(rows.status[i] == RowStatus::no_number);
  text.config.source.decimal = ".";
  text.config.filter.max_rejected = 0.1;
  CHECK_THAT(refusal(text), ContainsSubstring("(\"3,25\"); if the comma stands before the fraction, set [source] "
                                              "decimal = \",\""));
}

TEST_CASE("too many broken rows are an error; rows that the user's filters exclude do not count") {
  CsvText text("text,label\nx,1\nx,abc\nx,def\nx,ghi\n");
  text.config.task.name = "regression";
  CHECK_THAT(refusal(text),
             ContainsSubstring("3 of 4 rows (75%) cannot be used, more than [filter] max_rejected = 0.5") &&
                 ContainsSubstring("3 rows: the label is not a number (the first is ") &&
                 ContainsSubstring("row 2, line 3: the label is not a number (\"abc\"))") &&
                 ContainsSubstring("set [task] name = \"classification\"") && ContainsSubstring("Nothing is written."));
  text.config.filter.max_rejected = 0.75;
  CHECK(kept(text.scan()) == 1);
  std::string most = "text,label\nx,1\n";
  for (int i = 0; i < 4000; ++i) most += "x,abc\n";
  CsvText many(most);
  many.config.task.name = "regression";
  CHECK_THAT(refusal(many), ContainsSubstring("4,000 of 4,001 rows (99.98%) cannot be used"));
  CsvText listed("text,label\nx,a\nx,b\nx,b\nlong words,a\n");
  listed.config.task.labels = {"a"};
  listed.config.filter.max_characters = 5;
  CHECK(kept(listed.scan()) == 1);
}

TEST_CASE("a file with another delimiter is recognised by its broken rows") {
  std::string table = "a word\tx\n1,2\n";
  for (int i = 0; i < 20; ++i) table += "some words, and more\tx\n";
  CsvText tabs(table);
  tabs.config.source.header = false;
  tabs.config.source.text = {"1"};
  tabs.config.source.label = "3";
  CHECK_THAT(refusal(tabs), ContainsSubstring("No row is left") && ContainsSubstring("[source] format = \"tsv\""));
  CsvText wide("text,label\nx,a\none,two\tthree,four\none,two\tthree,four\n");
  CHECK_THAT(refusal(wide), ContainsSubstring("2 of 3 rows") && ContainsSubstring("more columns than the header") &&
                                ContainsSubstring("These rows hold tabs") && ContainsSubstring("format = \"tsv\""));
  CsvText quotes("text,label\nx,a\none,two,b\none; more,two,b\n");
  CHECK_THAT(refusal(quotes),
             !ContainsSubstring("tsv") && !ContainsSubstring("\";\"") && ContainsSubstring("extra_columns = true"));
  CsvText semicolons("text,label\nx,a\none;a\ntwo;b\n");
  CHECK_THAT(refusal(semicolons), ContainsSubstring("[source] delimiter = \";\""));
}

TEST_CASE("numbers in the order of their keys are those of a sort of pairs") {
  // 64 bits; few values, as groups have; equal upper bits, which the permutation cannot distinguish; any of these.
  const std::function<std::uint64_t(std::uint64_t)> kinds[] = {
      [](std::uint64_t draw) { return draw; }, [](std::uint64_t draw) { return draw % 7; },
      [](std::uint64_t draw) { return draw % 512; }, [](std::uint64_t draw) { return draw % 3 << 62 | draw % 64; }};
  for (const auto& kind : kinds) {
    for (const RowNumber count : {0u, 1u, 2u, 1000u, 100000u}) {  // one part has more than 65,536
      std::mt19937_64 random(3);
      std::vector<std::uint64_t> keys(3 * count);
      std::vector<RowNumber> numbers;
      std::vector<std::pair<std::uint64_t, RowNumber>> pairs;
      for (RowNumber number = 0; number < 3 * count; number += 3) {
        numbers.push_back(number);
        pairs.emplace_back(keys[number] = kind(random()), number);
      }
      std::sort(pairs.begin(), pairs.end());
      sort_by_key(numbers, [&keys](RowNumber number) { return keys[number]; });
      bool equal = numbers.size() == pairs.size();
      for (std::size_t i = 0; equal && i < numbers.size(); ++i) equal = numbers[i] == pairs[i].second;
      CHECK(equal);
    }
  }
}

TEST_CASE("more rows than numbers of four bytes distinguish are refused") {
  CHECK_NOTHROW(require_numbers(4294967295, "row"));
  CHECK_THROWS_WITH(require_numbers(4294967296, "row"), ContainsSubstring("more than 4,294,967,295 rows"));
}
