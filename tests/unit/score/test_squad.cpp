// SQuAD's scores on cases small enough to compute by hand.
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/score/python_text.hpp"
#include "bert_hpc/score/squad.hpp"

using namespace bert_hpc::score;

TEST_CASE("the words of an answer have no case, punctuation, articles or blanks") {
  CHECK(answer_words("The  cat's, an Apple!") == std::vector<std::u32string>{U"cats", U"apple"});
  CHECK(answer_words("theory a_b \xC2\xA0"
                     "A-b") == std::vector<std::u32string>{U"theory", U"ab", U"ab"});
  CHECK(answer_words("an . the").empty());
  CHECK(answer_words("a\xCC\x81") == std::vector<std::u32string>{U"\u0301"});  // a combining mark is no part of a word
}

TEST_CASE("a capital sigma at the end of a word becomes a final sigma") {
  CHECK(lower(U"\u039F\u03A3") == U"\u03BF\u03C2");
  CHECK(lower(U"\u03A3") == U"\u03C3");
  CHECK(lower(U"\u039F\u03A3'\u039F") == U"\u03BF\u03C3'\u03BF");
}

TEST_CASE("an answer's F1 counts repeated words, and is 1 for two empty answers") {
  CHECK(squad_answer_score({"cat cat dog"}, "cat cat cat").f1 == Catch::Approx(2.0 / 3.0));  // P = R = 2/3
  CHECK(squad_answer_score({}, "").f1 == 1.0);
  CHECK(squad_answer_score({"the"}, "a").exact == 1.0);
  CHECK(squad_answer_score({"cat"}, "").f1 == 0.0);
}

TEST_CASE("equal probabilities of no answer keep the file's order in the search of a threshold") {
  const std::vector<Question> questions = {{"right", {"cat"}}, {"wrong", {}}};
  const Predictions predictions = {{"right", "cat"}, {"wrong", "dog"}};
  const auto best = [&](const std::vector<NoAnswerProbability>& odds) {
    return squad2_result(questions, predictions, odds).numbers.at(9).value;  // best_exact
  };
  CHECK(best({{"right", 0.5}, {"wrong", 0.5}}) == 100.0);
  CHECK(best({{"wrong", 0.5}, {"right", 0.5}}) == 50.0);
}
