// SQuAD as JSON Lines: the rows of the same questions in SQuAD's own JSON, both forms of answers, and lines that cannot
// be read.
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
const Texts all_columns = {"id",          "title",        "question", "context", "is_impossible",
                           "answer_text", "answer_start", "answers"};

/// Rows as "line:value|value", with "(noted)" behind them, or as "line:!problem".
Texts rows(const std::string& content, const Texts& columns = all_columns) {
  const TemporaryFile file(content);
  const auto reader = open_rows(file.path(), {.format = find_text_format("squad")}, columns);
  Texts all;
  Row row;
  while (reader->next(row)) {
    CHECK(row.number == std::ssize(all) + 1);
    CHECK(row.values.size() == columns.size());
    std::string text = std::to_string(row.line);
    text += row.problem.empty() ? ":" : ":!" + row.problem;
    for (std::size_t i = 0; i < row.values.size() && row.problem.empty(); ++i) {
      if (i > 0) text += '|';
      text += row.values[i].value();
    }
    all.push_back(text + (row.note.empty() ? "" : " (noted)"));
  }
  return all;
}

std::string with_answers(const std::string& answers) {
  return R"({"id":"i","context":"a cat","question":"q","answers":)" + answers + "}\n";
}

std::string problem(const std::string& line) {
  const Texts found = rows(with_answers("null") + line + "\n");
  REQUIRE(found.size() == 2);
  REQUIRE(found[1].starts_with("2:!"));
  return found[1].substr(3);
}

}  // namespace

TEST_CASE("a line is a question: columns of answers, lists of them, none, and unknown ones") {
  CHECK(
      rows("\n"
           R"({"id":"a1","title":"Tea","context":"a green tea","question":"Which?","answers":{"text":["green",)"
           R"("a"],"answer_start":[2,0]}})"
           "\r\n \n"
           R"({"answers":[{"text":"\u00e9","answer_start":1,"x":[{}]}],"question":"q","context":"a\u00e9","id":7})"
           "\n"
           R"({"id":"a3","title":null,"context":"c","question":"q","answers":{"text":[],"answer_start":[]}})"
           "\n"
           R"({"id":"a4","context":"c","question":"q","answers":null})"
           "\n"
           R"({"id":"a5","context":"c","question":"q","x":{"data":[]},"is_impossible":true})") ==
      Texts{
          R"(2:a1|Tea|Which?|a green tea|false|green|2|[{"answer_start":2,"text":"green"},{"answer_start":0,"text":"a"}])",
          "4:7||q|a\u00e9|false|\u00e9|1|[{\"answer_start\":1,\"text\":\"\u00e9\"}]", "5:a3||q|c|true|||[]",
          "6:a4||q|c|false|||", "7:a5||q|c|true|||[]"});
  CHECK(rows(with_answers("[]") + with_answers("[]"), {"answers", "context"}) == Texts{"1:[]|a cat", "2:[]|a cat"});
  CHECK(rows(R"({"id":"i","context":"c","question":"q","answers":[],"is_impossible":false})", {"is_impossible"}) ==
        Texts{"1:false (noted)"});
}

TEST_CASE("rows are those of the same questions in SQuAD's own JSON, with the same repairs and problems") {
  for (const char* answers :
       {R"([{"text":"cat","answer_start":2},{"text":"x","answer_start":99}])", R"([{"text":"cat","answer_start":0}])",
        R"([{"text":"dog","answer_start":2}])", R"([{"text":"a","answer_start":1}])",
        R"([{"text":"","answer_start":18446744073709551615}])", "[]"}) {
    const std::string impossible = std::string(answers) == "[]" ? R"(,"is_impossible":true)" : "";
    const std::string own =
        R"({"data":[{"title":"T","paragraphs":[{"context":"a cat","qas":[{"id":"i","question":"q")" + impossible +
        R"(,"answers":)" + answers + "}]}]}]}";
    CHECK(rows(R"({"title":"T","id":"i","context":"a cat","question":"q","answers":)" + std::string(answers) + "}") ==
          rows(own));
  }
  CHECK(rows(with_answers(R"({"text":["cat"],"answer_start":[0]})"), {"answer_start"}) == Texts{"1:2 (noted)"});
  CHECK(rows(with_answers(R"({"text":["a"],"answer_start":[1]})"), {"id"}) ==
        Texts{"1:!has the answer \"a\" at answer_start 1, but its context has \" cat\" there (question i)"});
}

TEST_CASE("a line that cannot be read is a row with a problem") {
  CHECK(problem("[]") == "is not a JSON object");
  CHECK_THAT(problem(R"({"id":"i")"),
             ContainsSubstring("is not JSON: ") && ContainsSubstring("unexpected end of input"));
  CHECK(problem(std::string("{}\0", 3)) == "is not a JSON object");
  CHECK(problem("{\"x\":" + std::string(200, '[') + std::string(200, ']') + "}") == "is nested too deep");
  CHECK_THAT(problem("{\"id\":\"caf\xe9\"}"), ContainsSubstring("has bytes that are no UTF-8; if it is Latin-1"));
  CHECK(problem("{}") == "has no \"id\"");
  CHECK(problem(R"({"id":1.5})") == "has a number in \"id\", which must be a string");
  CHECK(problem(R"({"id":"i","question":"q"})") == "has no \"context\"");
  CHECK(problem(R"({"id":"i","context":null,"question":"q"})") == "has null in \"context\", which must be a string");
  CHECK(problem(R"({"id":"i","context":"c"})") == "has no \"question\"");
  CHECK(problem(R"({"id":"i","context":"c","question":"q","title":[]})") ==
        "has a list in \"title\", which must be a string");
  CHECK(problem(R"({"id":"i","context":"c","question":"q","is_impossible":"no"})") ==
        "has a string in \"is_impossible\", which must be true or false");
  const auto of_answers = [](const char* answers) {
    std::string line = with_answers(answers);
    line.pop_back();
    return problem(line);
  };
  CHECK(of_answers("true") == "has true or false in \"answers\", which must be an object or a list");
  CHECK(of_answers(R"({"text":["cat"]})") == "has no \"answer_start\" in \"answers\"");
  CHECK(of_answers(R"({"text":"cat","answer_start":[2]})") ==
        "has a string in \"text\", which must be a list in \"answers\"");
  CHECK(of_answers(R"({"text":["cat","a"],"answer_start":[2]})") ==
        "has 2 texts and 1 start in \"answers\", which must be as many");
  CHECK(of_answers(R"({"text":["cat"],"answer_start":[2.0]})") ==
        "has a number in \"answer_start\", which must be a whole number for each answer");
  CHECK(of_answers(R"([{"text":"cat"}])") == "has no \"answer_start\" in one of its answers");
  CHECK(of_answers(R"([["cat",2]])") == "has a list in \"answers\", which must be a list of objects");
}

TEST_CASE("the first object says what a file is, be it large or its members in any order") {
  const std::string large(300000, 'x');
  CHECK(rows(R"({"x":")" + large + R"(","id":"i","context":"c","question":"q"})", {"id"}) == Texts{"1:i"});
  const std::string document = R"("data":[{"paragraphs":[{"context":"c","qas":[{"id":"i","question":"q"}]}]}])";
  CHECK(rows(R"({"x":")" + large + R"(","context":{"data":1},)" + document + "}", {"id"}) == Texts{"1:i"});
  for (const char* other : {"[1]", "{}", "{\"id\":\"i\"}\n{\"context\":1}", "{\"context\":1", "7", "\"context\""}) {
    INFO(other);
    CHECK_THROWS_AS(rows(other), bert_hpc::core::Error);
  }
  CHECK_THROWS_WITH(rows(with_answers("[]"), {"contxt"}), ContainsSubstring("did you mean \"context\""));
}

TEST_CASE("questions and paragraphs in a list, or in \"data\", are the same rows as on lines and in articles") {
  const std::string first =
      R"({"id":"a","context":"a cat","question":"q","answers":{"text":["cat"],"answer_start":[2]}})";
  const std::string second = R"({"id":2,"context":"b","question":"r","answers":{"text":[],"answer_start":[]}})";
  const Texts expected = rows(first + '\n' + second + '\n');
  REQUIRE(expected.size() == 2);
  const auto on_line_1 = [](Texts all) {
    for (std::string& row : all) row.replace(0, row.find(':'), "1");
    return all;
  };
  CHECK(on_line_1(rows("{\"version\":\"0.1\",\"data\":[" + first + "," + second + "]}")) ==
        on_line_1(expected));  // run_qa.py
  CHECK(on_line_1(rows("[" + first + "," + second + "]")) == on_line_1(expected));
  const std::string spread = "{\n\"id\":2,\n\"context\":\"b\",\"question\":\"r\",\"answers\":[]}";
  CHECK(on_line_1(rows(spread + "\n" + first)) == Texts{on_line_1(expected)[1], on_line_1(expected)[0]});
  const std::string paragraphs =
      R"([{"context":"a cat","qas":[{"id":"a","question":"q","is_impossible":false,"answers":[{"text":"cat","answer_start":2}]}]},)"
      R"({"qas":[{"id":2,"question":"r","is_impossible":true,"answers":[]}],"context":"b"}])";
  CHECK(on_line_1(rows(paragraphs)) == on_line_1(expected));  // simpletransformers
  CHECK(on_line_1(rows("{\"data\":" + paragraphs + "}")) == on_line_1(expected));
  CHECK(rows("[" + first + ",{\"id\":1}," + first + "]")[1] == "1:!has no \"context\"");
  CHECK_THROWS_WITH(rows(R"([{"context":"c","qas":[]},{"context":"c","qas":[{"id":"i"}]}])"),
                    ContainsSubstring("paragraph 2 (line 1, byte 27), question 1: has no \"question\""));
}
