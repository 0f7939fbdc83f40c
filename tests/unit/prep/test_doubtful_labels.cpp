// Labels that are probably a mistake: spellings of one label, marks for "no label".
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/prep/row_table.hpp"
#include "unit/prep/csv_text.hpp"

using namespace bert_hpc::prep;
using bert_hpc::test::CsvText;
using Catch::Matchers::ContainsSubstring;
using Names = std::vector<std::string>;

namespace {

/// Three rows of each label, and more of the first ones.
std::string table(const Names& labels) {
  std::string text = "text,label\n";
  for (std::size_t round = 0; round < 2 + labels.size(); ++round) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (round < 3 || round < labels.size() - i) text += "some text," + labels[i] + "\n";
    }
  }
  return text;
}

std::string all_warnings(CsvText& text) {
  std::string all;
  for (const std::string& warning : warnings(text.scan(), text.config)) all += warning + '\n';
  return all;
}

}  // namespace

TEST_CASE("labels that differ in case, composition, invisible characters or blanks are listed with their rows") {
  CsvText text(
      table({"Positive", "positive", "caf\xC3\xA9", "cafe\xCC\x81", "bar", "bar\xE2\x80\x8B", "bar\xC2\xA0", "other"}));
  const std::string found = all_warnings(text);
  CHECK_THAT(found, ContainsSubstring("\"Positive\" 8 and \"positive\" 7"));
  CHECK_THAT(found, ContainsSubstring("\"cafe\\u{301}\" 5 and \"caf\xC3\xA9\" 6"));
  CHECK_THAT(found, ContainsSubstring("\"bar\" 4, \"bar\\u{A0}\" 3 and \"bar\\u{200B}\" 3"));
  CHECK_THAT(found, !ContainsSubstring("\"other\""));
  CHECK(text.scan().label_names.size() == 8);
}

TEST_CASE("whole numbers that are written as real ones too are listed") {
  CsvText text(table({"0", "1", "1.0", "2.5"}));
  CHECK_THAT(all_warnings(text), ContainsSubstring("the notation of numbers (label, rows): \"1\" 3 and \"1.0\" 3."));
}

TEST_CASE("a spelling that [task] labels does not list is in the warning too") {
  CsvText text(table({"Positive", "positive", "b"}));
  text.config.task.labels = {"positive", "b"};
  CHECK_THAT(all_warnings(text), ContainsSubstring("\"Positive\" 3 and \"positive\" 3") &&
                                     ContainsSubstring("those that [task] labels does not list are left out"));
}

TEST_CASE("different labels get no warning about their spelling") {
  CsvText text(table({"ano", "a\xC3\xB1o", "B-PER", "I-PER", "1", "2"}));
  text.config.task.labels = {"ano", "a\xC3\xB1o", "B-PER", "I-PER", "1", "2"};
  CHECK_THAT(all_warnings(text), !ContainsSubstring("differ only"));
}

TEST_CASE("a dash among labels of natural language inference is no class, unless the input says so") {
  CsvText text(table({"entailment", "Neutral", "contradiction", "-"}));
  const RowTable rows = text.scan();
  CHECK(rows.label_names == Names{"Neutral", "contradiction", "entailment"});
  CHECK(rows.counts()[static_cast<std::size_t>(RowStatus::undecided_label)] == 3);
  CHECK_THAT(all_warnings(text), ContainsSubstring("3 rows with the label \"-\" are left out") &&
                                     ContainsSubstring("[filter] undecided = true"));
  text.config.filter.undecided = true;
  CHECK(text.scan().label_names == Names{"-", "Neutral", "contradiction", "entailment"});
  CHECK_THAT(all_warnings(text), !ContainsSubstring("left out"));
  text.config.filter.undecided = false;
  text.config.task.labels = {"-", "entailment"};  // listed: meant
  CHECK(text.scan().label_names == text.config.task.labels);
}

TEST_CASE("a dash beside two labels of natural language inference is no class") {
  CsvText text(table({"entailment", "not_entailment", "-"}));
  CHECK(text.scan().label_names == Names{"entailment", "not_entailment"});
}

TEST_CASE("labels that mark missing values are listed") {
  CsvText text(table({"good", "nan", "#N/A"}));
  CHECK_THAT(all_warnings(text), ContainsSubstring("marks of missing values (label, rows): \"#N/A\" 3 and \"nan\" 3"));
  text.config.task.labels = {"good", "nan"};
  CHECK_THAT(all_warnings(text), !ContainsSubstring("marks of missing"));
  CsvText others(table({"none", "other"}));
  CHECK_THAT(all_warnings(others), !ContainsSubstring("marks of missing"));
}

TEST_CASE("names of sets that another separator joins are noticed") {
  for (const char separator : {'|', ';'}) {
    CsvText text("text,label\nx,toxic\nx,toxic" + std::string(1, separator) + "threat\nx,threat" + separator +
                 " toxic\nx,insult\n");
    text.config.task.name = "multi_label";
    text.config.source.label_separator = ",";
    CHECK_THAT(all_warnings(text), ContainsSubstring("2 labels such as") &&
                                       ContainsSubstring(std::string("label_separator = \"") + separator + '"'));
  }
  CsvText names("text,label\nx,a|b\nx,c|d\nx,e\n");  // with parts of their own
  names.config.task.name = "multi_label";
  names.config.source.label_separator = ",";
  CHECK_THAT(all_warnings(names), !ContainsSubstring("label_separator"));
}

TEST_CASE("sentences of one word each are noticed") {
  const auto found = [](const std::string& last) {
    std::string rows = "tokens,tags\n";
    for (int i = 0; i < 10; ++i) rows += "word,NOUN\n";
    CsvText text(rows + last);
    text.config.task.name = "token_classification";
    text.config.source.text = {"tokens"};
    text.config.source.label = "tags";
    return all_warnings(text);
  };
  CHECK_THAT(found(""),
             ContainsSubstring("each of the 10 sentences has one word. If rows are words, set [source] sentence"));
  CHECK_THAT(found("two words,NOUN VERB\n"), !ContainsSubstring("one word"));
}

TEST_CASE("tags in a notation without metrics of entities are noticed") {
  const auto found = [](const std::string& tags) {
    CsvText text("tokens,tags\na b c," + tags + "\n");
    text.config.task.name = "token_classification";
    text.config.source.text = {"tokens"};
    text.config.source.label = "tags";
    return all_warnings(text);
  };
  CHECK_THAT(found("B_PER O B_LOC"), ContainsSubstring("write \"B_LOC\" as \"B-LOC\", \"B_PER\" as \"B-PER\""));
  CHECK_THAT(found("PER-B PER-I O"), ContainsSubstring("\"PER-B\" as \"B-PER\""));
  CHECK_THAT(found("b-per o o"), ContainsSubstring("\"b-per\" as \"B-per\""));
  for (const char* tags : {"B-PER I-PER O", "NOUN DET VERB", "B-NP I-NP U-PER", "O O O", "x-B noun y"}) {
    CHECK_THAT(found(tags), !ContainsSubstring("metrics of entities"));
  }
}

TEST_CASE("a dash among other labels is a class") {
  for (const Names& labels :
       {Names{"+", "-"}, Names{"entailment", "-"}, Names{"entailment", "neutral", "maybe", "-"}}) {
    CsvText text(table(labels));
    CHECK(text.scan().label_names.size() == labels.size());
  }
}

TEST_CASE("label -1 beside class numbers is doubtful, and the list of the warning leaves it out") {
  CsvText text(table({"0", "1", "2", "-1"}));
  CHECK_THAT(all_warnings(text), ContainsSubstring("3 rows have the label \"-1\"") &&
                                     ContainsSubstring("[task] labels = [\"0\", \"1\", \"2\"]"));
  text.config.task.labels = {"0", "1", "2"};
  CHECK(text.scan().label_names == text.config.task.labels);
  CHECK_THAT(all_warnings(text), !ContainsSubstring("-1"));
  for (const Names& labels : {Names{"-1", "0", "1"}, Names{"-1", "-2", "0", "1", "2"}, Names{"-1", "1", "2", "3"}}) {
    CsvText scale(table(labels));
    CHECK_THAT(all_warnings(scale), !ContainsSubstring("without a label"));
  }
}

TEST_CASE("a label column without any number is named") {
  CsvText text("text,style,overall\nsome text,,6\nother text,,7.5\n");
  text.config.task.name = "regression";
  text.config.source.label = "";
  text.config.source.label_columns = {"style", "overall"};
  CHECK_THAT(all_warnings(text), ContainsSubstring("no row has a number in the label column \"style\""));
  CHECK_THAT(all_warnings(text), !ContainsSubstring("overall"));
}
