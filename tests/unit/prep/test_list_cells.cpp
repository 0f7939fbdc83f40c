// Lists in cells of tables as programs print them: label names of a set, words and their tags.
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/prep/word_rows.hpp"
#include "read_rows.hpp"

using namespace bert_hpc::prep;
using bert_hpc::test::last_reason;
using bert_hpc::test::rows;
using bert_hpc::test::Rows;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string quoted(const std::string& cell) {
  std::string all = "\"";
  for (const char c : cell) all.append(c == '"' ? 2 : 1, c);
  return all + '"';
}

/// The names in a label's cell between bars, "!" if the row cannot be read.
std::string names(const std::string& cell) {
  const RowFormat sets{.format = find_text_format("csv"), .list_columns = {"l"}, .list_separator = "|"};
  return rows("l\n" + quoted(cell) + "\n", sets, {"l"}).front().substr(2);
}

RowFormat words() {
  return {.format = find_text_format("csv"),
          .list_columns = {"tokens", "tags"},
          .list_separator = std::string(1, word_end),
          .list_ends = true};
}

/// Words and tags of a row, between bars.
std::string sentence(const std::string& tokens, const std::string& tags) {
  const std::string row =
      rows("tokens,tags\n" + quoted(tokens) + "," + quoted(tags) + "\n", words(), {"tokens", "tags"}).front();
  std::string all;
  for (const char c : row.substr(2)) all += c == word_end ? '_' : c;
  return all;
}

}  // namespace

TEST_CASE("a cell of labels may hold a list of Python, NumPy or JSON") {
  CHECK(names("['toxic', 'threat']") == "toxic|threat");
  CHECK(names("[\"toxic\", \"threat\"]") == "toxic|threat");
  CHECK(names("['toxic' 'threat']") == "toxic|threat");          // NumPy's array
  CHECK(names("['toxic'\n 'threat']") == "toxic|threat");        // a long one
  CHECK(names("[np.str_('toxic'), np.int64(3)]") == "toxic|3");  // NumPy 2 in a list
  CHECK(names("('toxic', 'threat')") == "toxic|threat");
  CHECK(names("{'toxic'}") == "toxic");
  CHECK(names("set()") == "");
  CHECK(names("frozenset({'toxic', 'threat'})") == "toxic|threat");
  CHECK(names("{27}") == "27");
  CHECK(names("{toxic|threat}") == "toxic|threat");  // PostgreSQL's array
  CHECK(names("{toxic}") == "toxic");
  CHECK(names("array(['toxic', 'threat'], dtype=object)") == "toxic|threat");
  CHECK(names("array([], dtype='<U5')") == "");
  CHECK(names("Index(['toxic'], dtype='object')") == "toxic");
  CHECK(names("tensor([1, 0, 1])") == "0|2");
  CHECK(names("np.array([0., 1., 0.])") == "1");
  CHECK(names("['toxic',]") == "toxic");
  CHECK(names(" [ 'a' ] ") == "a");
  CHECK(names("[\"it's\", 'a\\'b', 'caf\\xe9', '\\u65e5', '\\ud83d\\ude00', 'a\\\\b']") ==
        "it's|a'b|caf\u00e9|\u65e5|\U0001F600|a\\b");
  CHECK(names("[]") == "");
  CHECK(names("[27]") == "27");
  CHECK(names("[8, 20]") == "8|20");
  CHECK(names("[ 8 20]") == "8|20");
  CHECK(names("[27.]") == "27");
  CHECK(names("(8, 20)") == "8|20");
  CHECK(names("[toxic, threat]") == "toxic, threat");  // names without quotes, between this column's separators
  CHECK(names("[toxic|threat]") == "toxic|threat");
}

TEST_CASE("a vector of 0 and 1 in a cell names the labels by number") {
  CHECK(names("[0, 1, 1, 0]") == "1|2");
  CHECK(names("[0 1 1 0]") == "1|2");
  CHECK(names("[0. 1. 1. 0.]") == "1|2");
  CHECK(names("[0.0, 1.0]") == "1");
  CHECK(names("[True, False]") == "0");
  CHECK(names("[ True False]") == "0");
  CHECK(names("[0, 0, 0]") == "");
  CHECK(names("[0, 1]") == "0|1");  // two labels
}

TEST_CASE("a vector has as many numbers as there are labels, and two numbers are not guessed at") {
  RowFormat sets{.format = find_text_format("csv"), .list_columns = {"l"}, .list_separator = ",", .list_labels = 2};
  CHECK_THAT(last_reason("l\n\"[0, 1]\"\n", sets, {"l"}), ContainsSubstring("may name two labels"));
  CHECK_THAT(last_reason("l\n\"[1, 0, 1]\"\n", sets, {"l"}),
             ContainsSubstring("3 numbers of 0 and 1") && ContainsSubstring("[task] labels has 2 names"));
  CHECK(rows("l\n\"[0., 1.]\"\n[1]\n", sets, {"l"}) == Rows{"2:1", "3:1"});
  sets.list_labels = 3;
  CHECK(rows("l\n\"[0, 1]\"\n\"[1, 0, 1]\"\n", sets, {"l"}) == Rows{"2:0,1", "3:0,2"});
}

TEST_CASE("a cell of labels that is no list stays a name, or is rejected with a reason") {
  for (const char* name : {"toxic", "(a)", "(27)", "[a", "f(['a'])", "set(a)", "array(['a']", "a]", "", "[", "x['a']"})
    CHECK(names(name) == name);
  CHECK(names("['toxic', threat]") == "!");
  CHECK(names("{\"toxic\": 1}") == "!");
  CHECK(names("['a|b']") == "!");
  CHECK(names("['a' ... 'z']") == "!");
  CHECK(names("[0 1 ... 5]") == "!");
  CHECK(names("[0.7, 0.1]") == "!");
  CHECK(names("[None]") == "!");
  CHECK(names("[nan]") == "!");
  const RowFormat sets{.format = find_text_format("csv"), .list_columns = {"l"}, .list_separator = ","};
  CHECK_THAT(last_reason("l\n\"[0 1 ... 5]\"\n", sets, {"l"}), ContainsSubstring("shortened by NumPy"));
  CHECK_THAT(last_reason("l\n\"['a', b]\"\n", sets, {"l"}), ContainsSubstring("cannot be read as one"));
  CHECK(rows("t\n\"['a', 'b']\"\n", sets, {"t"}) == Rows{"2:['a', 'b']"});  // a text, whatever it looks like
}

TEST_CASE("cells of words and tags may hold lists, and brackets between blanks are words") {
  CHECK(sentence("['The', 'guide']", "['O', 'B-PER']") == "The_guide_|O_B-PER_");
  CHECK(sentence("['a b' \"it's\"]", "[0 3]") == "a b_it's_|0_3_");
  CHECK(sentence("[\"a\", \"\"]", "[0, 3]") == "a__|0_3_");
  CHECK(sentence("['a' 'b']", "[0. 3.]") == "a_b_|0_3_");
  CHECK(sentence("array(['a', 'b'], dtype=object)", "array([0, 3])") == "a_b_|0_3_");
  CHECK(sentence("set ( a )", "O O O O") == "set ( a )|O O O O");
  CHECK(sentence("[ 12 ]", "O O O") == "[ 12 ]|O O O");
  CHECK(sentence("[ see below ]", "O O O O") == "[ see below ]|O O O O");
  CHECK(sentence("( \" Hi \" )", "O O O O O") == "( \" Hi \" )|O O O O O");
  CHECK(sentence("['a' ... 'z']", "['O' ... 'O']") == "!");
  CHECK(sentence("['a', b]", "O O") == "!");
}
