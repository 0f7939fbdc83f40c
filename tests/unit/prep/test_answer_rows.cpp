// Answers between characters and tokens.
#include "bert_hpc/prep/answer_rows.hpp"

#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/prep/row_store.hpp"

using namespace bert_hpc;
using namespace bert_hpc::prep;

namespace {

/// "abcd ef gh": tokens "ab", "cd", "ef", "gh".
const std::vector<tokenize::TokenSpan> spans = {{0, 2}, {2, 4}, {5, 7}, {8, 10}};

TokenPair tokens_of(tokenize::TokenSpan answer, Window window = {0, 4}) {
  MadeRow row;
  row.spans = spans;
  return answer_tokens(row, {.end = 9, .first = 3, .document = 3, .window = window}, answer);
}

}  // namespace

TEST_CASE("an answer's tokens hold its first and its last character") {
  CHECK(tokens_of({0, 2}) == TokenPair{3, 3});
  CHECK(tokens_of({0, 7}) == TokenPair{3, 5});
  CHECK(tokens_of({1, 3}) == TokenPair{3, 4});  // within tokens
  CHECK(tokens_of({2, 10}) == TokenPair{4, 6});
  CHECK(tokens_of({6, 7}) == TokenPair{5, 5});
}

TEST_CASE("a window that lacks a part of the answer has none") {
  CHECK(tokens_of({0, 7}, {1, 4}) == TokenPair{});
  CHECK(tokens_of({5, 10}, {0, 3}) == TokenPair{});
  CHECK(tokens_of({5, 7}, {2, 3}) == TokenPair{3, 3});
  CHECK(tokens_of(no_answer) == TokenPair{});
  CHECK(tokens_of({2, 2}) == TokenPair{});  // without characters
  CHECK(tokens_of({0, 2}, {0, 0}) == TokenPair{});
}

TEST_CASE("characters of a window are those of the whole context, and none outside it") {
  MadeRow row;
  row.spans = spans;
  std::vector<std::int32_t> numbers;
  add_characters(row, {.end = 6, .first = 3, .document = 3, .window = {1, 3}}, 6, numbers);
  CHECK(numbers == std::vector<std::int32_t>{-1, -1, -1, -1, -1, -1, 2, 4, 5, 7, -1, -1});
}

TEST_CASE("the first answer counts in characters, not in bytes") {
  CHECK(first_answer(R"([{"answer_start": 3, "text": "Größe"}, {"answer_start": 0, "text": "x"}])") ==
        tokenize::TokenSpan{3, 8});
  CHECK(first_answer("[]") == no_answer);
}

TEST_CASE("a question's texts are its id, its context and the texts of its answers") {
  using Texts = std::vector<std::string>;
  SourceRow row;
  row.id = "q1";
  row.text_pair = "Größe";
  row.label = R"([{"answer_start": 0, "text": "Größe"}])";
  CHECK(question_texts(row, true) == Texts{"q1", "Größe", R"(["Größe"])"});
  row.label = "[]";
  CHECK(question_texts(row, true) == Texts{"q1", "Größe", "[]"});
  CHECK(question_texts(row, false) == Texts{"q1", "Größe", ""});
}

TEST_CASE("texts come back from a scratch file's numbers") {
  using Texts = std::vector<std::string>;
  for (const Texts& texts : {Texts{"q1", "Größe", "[]"}, Texts{""}, Texts{"", "abcde"}, Texts{}}) {
    CHECK(unpacked_texts(packed_texts(texts)) == texts);
  }
}
