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

TEST_CASE("CoNLL-U: multiword tokens and empty nodes are no words") {
  const auto line = [](const std::string& id, const std::string& form, const std::string& tag) {
    return id + '\t' + form + "\t_\t" + tag + "\t_\t_\t_\t_\t_\t_\n";
  };
  const std::string text = "# text = du lac\n" + line("1-2", "du", "_") + line("1", "de", "ADP") +
                           line("2", "le", "DET") + line("3", "lac", "NOUN") + "\n# text = Il veut\n# two\n" +
                           line("1", "Il", "PRON") + line("1.1", "veut", "VERB") + "\n# end\n";
  CHECK(rows(text, {"2", "4"}) == Texts{"3: de_le_lac_|ADP_DET_NOUN_|", "9: Il_|PRON_|"});
  CHECK_THROWS_WITH(rows(text, {"tokens", "tags"}), ContainsSubstring("of CoNLL-U, set [source] text = \"2\""));
  CHECK(rows("1-2 a\n1.1 b\n", {"1", "2"}) == Texts{"1: 1-2_1.1_|a_b_|"});  // two columns are not CoNLL-U's
}

TEST_CASE("CoNLL: numbers of words are not taken for the words") {
  CHECK_THROWS_WITH(rows("#\thttp://a\n1\tAus\tO\tO\n2\tOslo\tB-LOC\tO\n", {"tokens", "tags"}),
                    ContainsSubstring("numbers the words of a sentence in its first column: set [source] text"));
  CHECK(rows("1\tAus\tO\n2\tOslo\tB-LOC\n", {"1"}) == Texts{"1: 1_2_|"});
  CHECK(rows("1 CD O\n3 CD O\n\n2 CD O\n", {"tokens"}) == Texts{"1: 1_3_|", "4: 2_|"});
  CHECK(rows("1 O\n2 O\n", {"tokens"}) == Texts{"1: 1_2_|"});
}

TEST_CASE("CoNLL: skipped lines are counted") {
  const TemporaryFile file("# a\n# b\nx O\n\n# c\ny O\n\n# d\n# e\n");
  const auto reader = open_rows(file.path(), {.format = find_text_format("conll")}, {"tokens"});
  std::vector<std::int64_t> counts;
  Row row;
  for (bool more = true; more;) {
    more = reader->next(row);
    counts.push_back(row.skipped_lines);
  }
  CHECK(counts == std::vector<std::int64_t>{2, 1, 2});
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
