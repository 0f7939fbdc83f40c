// Rows of FASTA files.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "read_rows.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using test::Rows;

namespace {

const prep::RowFormat fasta{.format = prep::find_text_format("fasta")};

}  // namespace

TEST_CASE("FASTA: a row is a record, with its id, its description and its letters on any number of lines") {
  const std::string text =
      "\n;a comment\n>sp|P1|A_HUMAN First protein OS=Homo\r\nMKT\r\nAYI\r\n\r\n;more\nQ R\n>P2\nmk*\n>\nGG\n>P4\t of "
      "nothing \n";
  CHECK(test::rows(text, fasta, {"id", "description", "text"}) ==
        Rows{"3:sp|P1|A_HUMAN|First protein OS=Homo|MKTAYIQR", "9:P2||mk*", "11:||GG", "13:P4|of nothing|"});
  CHECK(test::rows(text, fasta, {"text"}).front() == "3:MKTAYIQR");
  CHECK(test::rows(">a\nMK", fasta, {"text", "id"}) == Rows{"1:MK|a"});
}

TEST_CASE("FASTA: files of other formats and unknown columns are refused by name") {
  CHECK_THAT(test::rows("MKT\n>a\nMK\n", fasta, {"text"}).front(),
             ContainsSubstring("error: line 1 does not begin with \">\"") && ContainsSubstring("format = \"text\""));
  CHECK_THAT(test::rows(">a\nMK\n", fasta, {"label"}).front(),
             ContainsSubstring("has no column \"label\"") && ContainsSubstring("\"id\", \"description\" and \"text\""));
}

TEST_CASE("FASTA: a record longer than 64 MiB is a problem of its row alone") {
  const std::string line = std::string(std::size_t{1} << 20, 'M') + '\n';
  std::string text = ">long\n";
  for (int i = 0; i < 65; ++i) text += line;
  text += ">next\nMK\n";
  const Rows rows = test::rows(text, fasta, {"id", "text"}, true);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0] == "1:!is longer than 64 MiB");
  CHECK(rows[1] == "67:next|MK");
}
