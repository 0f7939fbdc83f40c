// Tables with quotes that are no quoting: rows are never joined in silence, and reasons name the cause.
#include <algorithm>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/prep/readers/line_source.hpp"
#include "read_rows.hpp"

using namespace bert_hpc::prep;
using bert_hpc::test::last_reason;
using bert_hpc::test::rows;
using bert_hpc::test::Rows;
using bert_hpc::test::TemporaryFile;
using Catch::Matchers::ContainsSubstring;

namespace {

const RowFormat csv{.format = find_text_format("csv")};
const Rows both = {"t", "l"};

}  // namespace

TEST_CASE("a stray quote at the beginning of a field does not swallow rows") {
  CHECK(rows("t,l\ngood,1\n\"bad,0\nfine,1\nodd,0\n\"weak,0\nlast,1\n", csv, both) ==
        Rows{"2:good|1", "3:\"bad|0", "4:fine|1", "5:odd|0", "6:!", "7:last|1"});
  CHECK(rows("t,l\n\"Up\" is good,1\n\"a, \"\"b\"\"\",2\n", csv, both) == Rows{"2:\"Up\" is good|1", "3:a, \"b\"|2"});
  CHECK(rows("l,t\n1,\"bad\n2,\"a\nb\"\n3,\"\"\n", csv, both) == Rows{"2:\"bad|1", "3:a\nb|2", "5:|3"});
  CHECK(rows("t,l\n\"x\" ,1\n\"y\"\t\r\n", csv, both) == Rows{"2:x |1", "3:y\t|-"});  // blanks behind a quote
  const TemporaryFile file("t,l\n\"bad,0\n\"fine\",1\n");
  const auto reader = open_rows(file.path(), csv, both);
  Row row;
  REQUIRE(reader->next(row));
  CHECK_THAT(row.note, ContainsSubstring("a quote at the beginning of column 1, and text behind the next one"));
  REQUIRE(reader->next(row));
  CHECK(row.note.empty());
}

TEST_CASE("columns in quotes are noticed where quotes are ordinary characters") {
  const RowFormat tsv{.format = find_text_format("tsv"), .delimiter = '\t', .quotes = false};
  const TemporaryFile file("t\tl\n\"he said \"\"so\"\"\"\t1\n\"a\"\t2\n\"Up\" and \"down\"\t3\nx\t\"b \"\"\"\"\"\n");
  const auto reader = open_rows(file.path(), tsv, both);
  Row row;
  for (const char* column : {"column 1", "", "", "column 2"}) {
    REQUIRE(reader->next(row));
    if (*column == '\0') CHECK(row.note.empty());
    if (*column != '\0') CHECK_THAT(row.note, ContainsSubstring(column) && ContainsSubstring("quotes = true"));
  }
  CHECK_THAT(last_reason("t\tl\nb\t2\n\"one\n", tsv, both),
             ContainsSubstring("3:!ends within a column that begins with a quote; if quotes enclose columns"));
  CHECK(rows("t\tl\nb\t2\n\"one\"\n", tsv, both) == Rows{"2:b|2", "3:\"one\"|-"});
  CHECK_THAT(rows("\"t\"\t\"l\"\n\"b\"\t2\n", tsv, both).back(),
             ContainsSubstring("The names are in quotes: set [source] "
                               "quotes = true."));
}

TEST_CASE("a quote that is never closed costs its own line, however long the file is") {
  CHECK_THAT(last_reason("t,l\na,1\nb,\"2", csv, both),
             ContainsSubstring("3:!has a quote at the beginning of column 2 that is never closed") &&
                 ContainsSubstring("quotes = false"));
  std::string text = "t,l\n\"a,1\n";
  while (text.size() < longest_record + 100) text.append(100'000, 'x').append(",2\n");
  const Rows all = rows(text, csv, {"l"});
  CHECK(all.front() == "2:!");
  CHECK(all[1] == "3:2");
  CHECK(std::ssize(all) == std::count(text.begin(), text.end(), '\n') - 1);
}

TEST_CASE("rows with escaped quotes are rejected with that reason") {
  for (const char* row :
       {R"("he said \"hi\" again",1)", R"("he said \"hi, you\"",1)", R"("\"",1)", R"("a, \"b\", c, d",1)"}) {
    INFO(row);
    CHECK_THAT(last_reason(std::string("t,l\nx,1\n") + row + "\n", csv, both),
               ContainsSubstring("has \\\", which is no escape in CSV") && ContainsSubstring("escapechar=\"\\\\\""));
  }
  CHECK(rows("t,l\n\"a \\\"b\\\",\nc\",1\nx,2\n", csv, both) == Rows{"2:!", "4:x|2"});  // one row, not two
  CHECK(rows("t,l\n\"a \\\"b\nc,1\n\"x\",2\n", csv, both) == Rows{"2:!", "3:c|1", "4:x|2"});
  CHECK_THAT(last_reason("t,l,m\na\\, b,1,2\n", csv, both), ContainsSubstring("a backslash before a delimiter"));
  CHECK(rows("t,l,m\na\\\nb,1,2\nC:\\,1,2\n", csv, both) == Rows{"2:!", "3:b|1", "4:C:\\|1"});
  CHECK(rows("t,l\n\"C:\\\",1\n", csv, both) == Rows{"2:C:\\|1"});
  CHECK(rows("t,l\n6\\\" pipe,1\n", csv, both) == Rows{"2:6\\\" pipe|1"});
}

TEST_CASE("a blank before a quote is named where a row has too many columns") {
  CHECK_THAT(last_reason("l,t\n1, \"a, b\"\n", csv, both),
             ContainsSubstring("has 3 columns, the header 2; it has a blank between a delimiter and a quote"));
}
