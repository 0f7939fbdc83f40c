// Rows of SQuAD's JSON: versions 1.1 and 2, answers that are not at their stated position, and files in other formats.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "support/temporary_file.hpp"

using namespace bert_hpc::prep;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using bert_hpc::test::TemporaryFile;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

namespace {

using Texts = std::vector<std::string>;
const Texts all_columns = {"id", "title", "question", "context", "is_impossible", "answer_text", "answer_start"};

/// Rows as "line:value|value", or as "line:!problem".
Texts rows(const std::string& content, const Texts& columns = all_columns) {
  const TemporaryFile file(content);
  const auto reader = open_rows(file.path(), {.format = find_text_format("squad")}, columns);
  Texts all;
  Row row;
  while (reader->next(row)) {
    CHECK(row.number == std::ssize(all) + 1);
    std::string text = std::to_string(row.line);
    text += row.problem.empty() ? ":" : ":!" + row.problem;
    for (std::size_t i = 0; i < row.values.size() && row.problem.empty(); ++i) {
      if (i > 0) text += '|';
      text += row.values[i].value();
    }
    all.push_back(text);
  }
  return all;
}

/// The message for a file that is refused, without the file's path; "" if it is taken.
std::string refusal(const std::string& content, const Texts& columns = {"id"}) {
  const TemporaryFile file(content);
  try {
    const auto reader = open_rows(file.path(), {.format = find_text_format("squad")}, columns);
    Row row;
    while (reader->next(row)) continue;
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    const std::string text = error.what();
    REQUIRE(text.starts_with(file.path() + ": "));
    return text.substr(file.path().size() + 2);
  }
  return "";
}

std::string in_article(const std::string& members) {
  return "{\"data\":[{\"paragraphs\":[{\"context\":\"c\",\"qas\":[]}]},\n{" + members + "}]}";
}
std::string in_question(const std::string& members) {
  return in_article("\"paragraphs\":[{\"context\":\"a cat\",\"qas\":[{" + members + "}]}]");
}
std::string with_answers(const std::string& answers, const std::string& context = "a cat") {
  return "{\"data\":[{\"paragraphs\":[{\"context\":\"" + context +
         "\",\"qas\":[{\"id\":\"i\",\"question\":\"q\",\"answers\":[" + answers + "]}]}]}]}";
}

}  // namespace

TEST_CASE("SQuAD 2: a row for each question, with its article's title and its paragraph's context") {
  const std::string text = R"({"version": "v2.0", "data": [{"title": "Tea", "paragraphs": [
    {"qas": [{"question": "Which?", "id": "a1", "answers": [{"text": "green", "answer_start": 2},
                                                          {"text": "a", "answer_start": 0}], "is_impossible": false},
             {"plausible_answers": [{"text": "x", "answer_start": 99}], "question": "When?", "id": "a2", "answers": [],
              "is_impossible": true}], "context": "a green tea"},
    {"qas": [], "context": "no question"}]},
    {"title": "None", "paragraphs": []},
    {"title": "Caf\u00e9", "paragraphs": [{"qas": [{"question": "\"q\"", "id": "b1"}], "context": "c\n"}]}]})";
  CHECK(rows(text) == Texts{"1:a1|Tea|Which?|a green tea|false|green|2", "1:a2|Tea|When?|a green tea|true||",
                            "8:b1|Caf\xC3\xA9|\"q\"|c\n|false||"});
  CHECK(rows(text, {"question", "context", "is_impossible"}) ==
        Texts{"1:Which?|a green tea|false", "1:When?|a green tea|true", "8:\"q\"|c\n|false"});
  CHECK(rows(text, {}) == Texts{"1:", "1:", "8:"});
}

TEST_CASE("SQuAD 1.1: no question is impossible; members have any order, and unknown members any content") {
  CHECK(
      rows("\xEF\xBB\xBF \n{\"a\":{\"data\":[1]},\"b\":-1.5e3,\"c\":\"]}\\\"\\\\\",\"data\":[{\"paragraphs\":[{\"qas\":"
           "[{\"x\":[[{\"id\":1}],null,1.5,true],\"answers\":[{\"answer_start\":1,\"text\":\"b\",\"x\":\"\"}],"
           "\"id\":7,\"question\":\"q\"}],\"x\":{\"qas\":3},\"context\":\"ab\"}],\"title\":\"T\"}],\"version\":\"1.1\""
           "}\n\n") == Texts{"2:7|T|q|ab|false|b|1"});
  CHECK(rows("{\"data\":[]}").empty());
  CHECK(rows(in_question("\"id\":\"i\",\"question\":\"q\"")) == Texts{"2:i||q|a cat|false||"});
}

TEST_CASE("an answer's start counts characters, and the context must hold the answer there") {
  const std::string accents = "\u00e4\U0001F600 cat \u00e9";
  CHECK(rows(with_answers(R"({"text":"cat","answer_start":3})", accents), {"answer_text"}) == Texts{"1:cat"});
  CHECK(rows(with_answers(R"({"text":"\u00e9","answer_start":7})", accents), {"answer_start"}) == Texts{"1:7"});
  CHECK(rows(with_answers(R"({"text":"","answer_start":8})", accents), {"answer_start"}) == Texts{"1:8"});
  CHECK(rows(with_answers(R"({"text":"cat","answer_start":2},{"text":"dog","answer_start":9})")).front() ==
        "1:i||q|a cat|false|cat|2");
  const auto misplaced = [](const std::string& start, const std::string& text = "cat") {
    return rows(with_answers("{\"text\":\"" + text + "\",\"answer_start\":" + start + "}")).front();
  };
  CHECK(misplaced("2", "cats") ==
        "1:!has the answer \"cats\" at answer_start 2, but its context has \"cat\" there (question i)");
  CHECK(misplaced("6", "dog") ==
        "1:!has the answer \"dog\" at answer_start 6, but its context has 5 characters (question i)");
  CHECK_THAT(misplaced("6", ""), ContainsSubstring("has 5 characters"));
  CHECK_THAT(misplaced("-1", ""), ContainsSubstring("at answer_start -1, but"));
  CHECK_THAT(misplaced("18446744073709551615", "dog"), ContainsSubstring("at answer_start 9223372036854775807, but"));
  CHECK(rows(with_answers(R"({"text":"a","answer_start":1})", "a cat a")).front() ==
        "1:!has the answer \"a\" at answer_start 1, but its context has \" cat a\" there (question i)");
}

TEST_CASE("an answer that stands at one other position alone is taken from there") {
  for (const char* start : {"0", "6", "-3", "18446744073709551615"}) {
    CHECK(rows(with_answers(std::string("{\"text\":\"cat\",\"answer_start\":") + start + "}")).front() ==
          "1:i||q|a cat|false|cat|2");
  }
  const TemporaryFile file(with_answers(R"({"text":"cat","answer_start":4})", "\u00e4\U0001F600 cat \u00e9"));
  const auto reader = open_rows(file.path(), {.format = find_text_format("squad")}, {"answers"});
  Row row;
  REQUIRE(reader->next(row));
  CHECK_THAT(row.note, ContainsSubstring("at answer_start 4, but its context has") &&
                           ContainsSubstring("the answer is at 3 alone, which is used"));
  CHECK(row.values.front() == R"([{"answer_start":3,"text":"cat"}])");
}

TEST_CASE("a column that SQuAD has not is refused before anything is read") {
  const TemporaryFile file("{\"data\":[1]}");
  const RowFormat squad{.format = find_text_format("squad")};
  CHECK_NOTHROW(open_rows(file.path(), squad, all_columns));
  CHECK_THROWS_WITH(
      open_rows(file.path(), squad, {"contxt", "id", "label"}),
      ContainsSubstring("has no columns \"contxt\" (did you mean \"context\"?) and \"label\". The columns "
                        "of SQuAD are \"id\", \"title\", \"question\","));
}

TEST_CASE("a file that is not SQuAD is refused with the location and a description of the format") {
  const auto refused = [](const std::string& content, const std::string& words) {
    INFO(content);
    CHECK_THAT(refusal(content),
               ContainsSubstring(words) &&
                   EndsWith(". A SQuAD file is {\"data\": [{\"title\": …, "
                            "\"paragraphs\": [{\"context\": …, \"qas\": [{\"id\": …, \"question\": …, "
                            "\"is_impossible\": …, \"answers\": [{\"text\": …, \"answer_start\": …}]}]}]}]}, or has on "
                            "each line {\"id\": …, "
                            "\"context\": …, \"question\": …, \"answers\": {\"text\": […], \"answer_start\": […]}}."));
  };
  const std::string article = "article 2 (line 2, byte 53): ";
  const std::string question = "article 2 (line 2, byte 53), paragraph 1, question 1: ";
  refused("7", "does not begin with { or [");
  refused("{\"version\":\"1.1\"}", "has no \"data\"");
  refused("{\"data\":{}}", "has no list in \"data\"");
  refused("{\"data\":[null]}", "line 1, byte 10: article 1 is not an object");
  refused(in_article(""), article + "has no \"paragraphs\"");
  refused(in_article("\"title\":null,\"paragraphs\":[]"), article + "has null in \"title\", which must be a string");
  refused(in_article("\"paragraphs\":{}"), article + "has an object in \"paragraphs\", which must be a list");
  refused(in_article("\"paragraphs\":[[]]"),
          article + "has a list where each is an object, in the list of its paragraphs");
  refused(in_article("\"paragraphs\":[{\"qas\":[]}]"), "byte 53), paragraph 1: has no \"context\"");
  refused(in_article("\"paragraphs\":[{\"context\":\"\"}]"), "paragraph 1: has no \"qas\"");
  refused(in_article("\"paragraphs\":[{\"context\":\"\",\"qas\":[{\"id\":\"\",\"question\":\"\"},3]}]"),
          "paragraph 1: has a number where each is an object, in the list of its questions");
  refused(in_question("\"question\":\"\""), question + "has no \"id\"");
  refused(in_question("\"id\":\"\""), question + "has no \"question\"");
  refused(in_question("\"id\":1.5"), question + "has a number in \"id\", which must be a string");
  refused(in_question("\"id\":1,\"id\":2"), question + "has \"id\" twice");
  refused(in_question("\"id\":1,\"question\":[]"), question + "has a list in \"question\", which must be a string");
  refused(in_question("\"is_impossible\":0"),
          question + "has a number in \"is_impossible\", which must be true or false");
  refused(in_question("\"answers\":false"), question + "has false in \"answers\", which must be a list");
  refused(with_answers("[]"), "question 1: has a list where each is an object, in the list of its answers");
  refused(with_answers("{\"text\":\"a\",\"answer_start\":0},{\"text\":\"a\"}"), "answer 2: has no \"answer_start\"");
  refused(with_answers("{\"answer_start\":0}"), "answer 1: has no \"text\"");
  refused(with_answers("{\"answer_start\":1.0}"), "has a number in \"answer_start\", which must be a whole number");
  refused(with_answers("{\"answer_start\":\"1\"}"), "has a string in \"answer_start\"");
  refused(in_question("\"x\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']')), "is nested too deep");
}

TEST_CASE("invalid JSON is refused with line and byte") {
  CHECK(refusal("{") == "line 1, byte 2: is not JSON: a name in quotes is missing.");
  CHECK(refusal("{\"a\":tru,\"data\":[]}") == "line 1, byte 6: is not JSON: a value cannot be read.");
  CHECK(refusal("{\"a\":\xEF\xBB\xBF"
                "1,\"data\":[]}") == "line 1, byte 6: is not JSON: a value cannot be read.");
  CHECK(refusal(std::string("{\"a\":1\0x,\"data\":[]}", 19)) == "line 1, byte 6: is not JSON: a value cannot be read.");
  CHECK_THAT(refusal(std::string("{\"data\":[{\"paragraphs\":[]\0}]}", 29)), ContainsSubstring("is not JSON: "));
  CHECK(refusal("{\"\\x\":1,\"data\":[]}") == "line 1, byte 2: is not JSON: a name cannot be read.");
  CHECK(refusal("{\"data\"[]}") == "line 1, byte 8: is not JSON: a colon is missing after a name.");
  CHECK(refusal("{\"data\":[],\"data\":[]}") == "has \"data\" twice.");
  CHECK(refusal("{\"data\":[]\n]") == "line 2, byte 12: is not JSON: a comma or } is missing after a member.");
  CHECK(refusal("{\"data\":[]}\n\n{}") == "line 3, byte 14: is not JSON: something follows after its last }.");
  CHECK(refusal("{\"data\":[{\"paragraphs\":[]} {}]}") ==
        "line 1, byte 28: is not JSON: a comma or ] is missing after article 1.");
  CHECK(refusal("{\"data\":[\n {\"paragraphs\":[") == "line 2, byte 12: the file ends within article 1.");
  CHECK(refusal("{\"data\":[{}") != "");
  CHECK_THAT(refusal("{\"data\":[{\"paragraphs\":[]},]}"), ContainsSubstring("article 2 is not an object"));
  CHECK_THAT(refusal("{\"data\":[{\n\"paragraphs\":[}]}"),
             ContainsSubstring("line 2, byte 26: is not JSON: ") && ContainsSubstring("unexpected '}'"));
  CHECK_THAT(refusal(in_question("\"id\":\"caf\xE9\"")),
             ContainsSubstring("is not JSON: ") && EndsWith("set [source] encoding = \"latin-1\"."));
  CHECK_THAT(refusal(in_question("\"id\":\"\\ud800\"")), ContainsSubstring("one half of a surrogate pair"));
  CHECK_THAT(refusal(in_question("\"x\":1e999")), ContainsSubstring("is not JSON: number overflow"));
}

TEST_CASE("articles of any size up to the limit, over all block boundaries") {
  std::string text = "{\"data\":[";
  Texts expected;
  for (int i = 0; i < 40'000; ++i) {
    const std::string context(static_cast<std::size_t>(i % 97), i % 2 ? '\\' : '"');
    std::string escaped;
    for (const char c : context) escaped.append("\\").append(1, c);
    text.append(i > 0 ? "," : "").append("{\"paragraphs\":[{\"context\":\"").append(escaped);
    text.append("\",\"qas\":[{\"question\":\"]}{[\",\"id\":").append(std::to_string(i)).append("}]}]}");
    expected.push_back("1:" + std::to_string(i).append("|").append(context));
  }
  CHECK(rows(text + "]}", {"id", "context"}) == expected);
  const std::string large(3 << 20, 'x');
  CHECK(rows(with_answers("", large), {"context"}) == Texts{"1:" + large});
  CHECK_THAT(
      refusal(with_answers("", std::string(longest_record, 'x'))),
      ContainsSubstring("line 1, byte 10: article 1 is longer than 64 MiB; is a bracket or quote never closed?"));
}
