// Text tables of scorers: how lines are cut into columns, and the line and column that errors name.
#include "../src/score/lines.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "support/temporary_file.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using score::Line;
using score::Separator;

namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows cut(std::string_view text, Separator separator) {
  Rows rows;
  score::each_line("table", text, separator, [&](const Line& line) {
    CHECK(line.number == rows.size() + 1);
    rows.emplace_back(line.columns.begin(), line.columns.end());
  });
  return rows;
}

}  // namespace

TEST_CASE("lines are cut at runs of blanks, at each tab or at each comma") {
  CHECK(cut(" a\t b  c \n", Separator::blanks) == Rows{{"a", "b", "c"}});
  CHECK(cut("a\t\tb c\t\n", Separator::tab) == Rows{{"a", "", "b c", ""}});
  CHECK(cut("a,,b c,\n", Separator::comma) == Rows{{"a", "", "b c", ""}});
  CHECK(cut("\"a,b\",\"\",c\n", Separator::comma) == Rows{{"a,b", "", "c"}});
}

TEST_CASE("LF or CRLF ends a line, the last may have neither, and blank lines have no columns") {
  CHECK(cut("a b\r\n\r\n \nc", Separator::blanks) == Rows{{"a", "b"}, {}, {}, {"c"}});
  CHECK(cut("", Separator::tab).empty());
  CHECK(cut("\n", Separator::tab) == Rows{{}});
  CHECK(cut("\t\n", Separator::tab) == Rows{{}});
}

TEST_CASE("rows of a file are its lines that are not blank, without a byte order mark") {
  const test::TemporaryFile file("\xEF\xBB\xBFq1 0 d 2\n\n q2 0 d 1");
  std::vector<std::size_t> numbers;
  std::vector<std::string> first;
  score::each_row(file.path(), Separator::blanks, [&](const Line& line) {
    numbers.push_back(line.number);
    first.emplace_back(line.columns[0]);
  });
  CHECK(numbers == std::vector<std::size_t>{1, 3});
  CHECK(first == std::vector<std::string>{"q1", "q2"});
  CHECK_THROWS_AS(score::each_row(file.path() + ".none", Separator::blanks, [](const Line&) {}), core::Error);
}

TEST_CASE("numbers are whole columns, finite, in their range, with blanks around them") {
  const std::string path = "table";
  const auto number = [&](std::string_view text) { return Line{path, 7, {"x", text}}; };
  CHECK(number(" -2.5e3 ").real(1) == -2500.0);
  CHECK(number("0.1").single(1) == 0.1f);
  CHECK(number("1e-60").single(1) == 0.0f);
  CHECK(number("-3").integer(1, -3, 3) == -3);
  for (const std::string_view text : {"", "1,5", "1.5x", "nan", "inf", "1e999", "0x10", "--1"}) {
    CHECK_THROWS_MATCHES(number(text).real(1), core::Error,
                         MessageMatches(ContainsSubstring("table: line 7:") && ContainsSubstring("column 2")));
  }
  CHECK_THROWS_MATCHES(number("1e39").single(1), core::Error, MessageMatches(ContainsSubstring("single precision")));
  for (const std::string_view text : {"4", "-4", "1.0", "99999999999999999999", ""}) {
    CHECK_THROWS_MATCHES(number(text).integer(1, -3, 3), core::Error,
                         MessageMatches(ContainsSubstring("from -3 to 3")));
  }
}

TEST_CASE("broken lines are reported with file, line and remedy") {
  CHECK_THROWS_MATCHES(cut("a\n\"b\n", Separator::comma), core::Error,
                       MessageMatches(ContainsSubstring("table: line 2:") && ContainsSubstring("not closed")));
  CHECK_THROWS_MATCHES(cut("\"a\"b,c\n", Separator::comma), core::Error, MessageMatches(ContainsSubstring("line 1")));
  const std::string path = "table";
  const Line line{path, 3, {"a", "b"}};
  CHECK_NOTHROW(line.require_columns(2, "x y"));
  CHECK_THROWS_MATCHES(line.require_columns(3, "x y z"), core::Error,
                       MessageMatches(ContainsSubstring("2 columns") && ContainsSubstring("'x y z'")));
}
