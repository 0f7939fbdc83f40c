// Sentences of CoNLL's columns.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "support/temporary_file.hpp"

using namespace bert_hpc::prep;
using bert_hpc::test::TemporaryFile;
using Catch::Matchers::ContainsSubstring;

namespace {

using Texts = std::vector<std::string>;

/// "line: values|… problem" of each row, with _ for U+001F.
Texts rows(const std::string& content, const Texts& columns, const std::string& encoding = "utf-8") {
  const TemporaryFile file(content);
  RowFormat format;
  format.format = find_text_format("conll");
  format.encoding = encoding;
  const auto reader = open_rows(file.path(), format, columns);
  Row row;
  Texts all;
  while (reader->next(row)) {
    std::string text = std::to_string(row.line) + ": ";
    for (const auto& value : row.values) {
      std::string shown(*value);
      std::replace(shown.begin(), shown.end(), '\x1f', '_');
      if (shown.starts_with(file.path())) shown = shown.substr(file.path().size());
      text += shown + '|';
    }
    all.push_back(text + row.problem);
    CHECK(row.number == std::ssize(all));
  }
  return all;
}

}  // namespace

TEST_CASE("CoNLL: a row is a sentence, and documents begin with -DOCSTART-") {
  const std::string content =
      "EU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\n\n-DOCSTART- -X- O O\r\n\r\nPeter NNP I-NP B-PER\r\n-DOCSTART- -X- O "
      "O\n \n1996 CD I-NP O";
  CHECK(rows(content, {"tokens", "tags", "document"}) ==
        Texts{"1: EU_rejects_|B-ORG_O_||", "7: Peter_|B-PER_|:1|", "10: 1996_|O_|:2|"});
  CHECK(rows(content, {"2", "1"})[0] == "1: NNP_VBZ_|EU_rejects_|");
}

TEST_CASE("CoNLL: columns lie between tabs where a line has one, else between blanks") {
  CHECK(rows("a b\tO\nc\tB-X\n", {"tokens", "tags"}) == Texts{"1: a b_c_|O_B-X_|"});
  CHECK(rows("a   O\n", {"tokens", "tags"}) == Texts{"1: a_|O_|"});
  CHECK(rows("Gr\xF6\xDF"
             "e O\n",
             {"tokens"}, "latin-1") == Texts{"1: Größe_|"});
}

TEST_CASE("CoNLL: comments before a sentence are skipped") {
  const std::string multiconer =
      "# id s0\tdomain=en\nThe _ _ O\n# _ _ O\n\n# id s1\tdomain=en\n\n# id s2\tdomain=en\n# _ _ B-X\n";
  CHECK(rows(multiconer, {"tokens", "tags"}) == Texts{"2: The_#_|O_O_|", "8: #_|B-X_|"});
  const std::string conllu = "# newdoc\n# text = It is\n1\tIt\tPRON\n2\tis\tAUX\n\n# text = No\n1\tNo\tINTJ\n";
  CHECK(rows(conllu, {"2", "3"}) == Texts{"3: It_is_|PRON_AUX_|", "7: No_|INTJ_|"});
  CHECK(rows("#\thttp://a\n1\tAus\tO\tO\n\n#\thttp://b\n1\t#\tO\tO\n", {"2", "3"}) ==
        Texts{"2: Aus_|O_|", "5: #_|O_|"});
  CHECK(rows("# O\n#b B-X\n", {"tokens", "tags"}) ==
        Texts{"1: #_#b_|O_B-X_|"});  // no line says what a token looks like
}

TEST_CASE("CoNLL: a sentence with a line of another width is a row with a problem") {
  const Texts found = rows("a O\n\nb O\nc\nd O\n\ne O\n", {"tokens"});
  REQUIRE(found.size() == 3);
  CHECK(found[1] == "3: b_d_|has 1 column in line 4, and the file's first token 2");
  CHECK(found[2] == "7: e_|");
}

TEST_CASE("CoNLL: columns that a file lacks are refused") {
  CHECK_THROWS_WITH(rows("a\nb\n", {"tokens", "tags"}), ContainsSubstring("has no column \"tags\"") &&
                                                            ContainsSubstring("\"tokens\", \"document\" and \"1\""));
  CHECK_THROWS_WITH(rows("a O\n", {"3"}), ContainsSubstring("has no column \"3\""));
  CHECK_THROWS_WITH(rows("\n-DOCSTART- -X- O O\n\n", {"tokens"}), ContainsSubstring("has no tokens"));
}
