// Answers from scores, against the definition: the best of all spans, in every window.
#include "bert_hpc/objectives/answers.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <random>

using namespace bert_hpc::objectives;

namespace {

const std::string context = "Größe: zwölf Äpfel";  // words at characters 0-6, 7-12, 13-18

/// A window of the question's [CLS], a separator, and these words of the context, each a token.
struct Window {
  std::vector<float> logits;
  std::vector<std::int32_t> characters;
};

Window window_of(const std::vector<std::pair<float, float>>& scores,
                 const std::vector<std::pair<std::int32_t, std::int32_t>>& words) {
  Window window;
  for (const auto& [first, last] : scores) window.logits.insert(window.logits.end(), {first, last});
  window.characters = {-1, -1, -1, -1};
  for (const auto& [begin, end] : words) window.characters.insert(window.characters.end(), {begin, end});
  return window;
}

std::vector<float> best_of(const Window& window, const AnswerSettings& settings) {
  std::vector<float> out(static_cast<std::size_t>(window_width(settings)));
  best_spans(window.logits, 2, static_cast<std::int64_t>(window.logits.size()) / 2, settings, out);
  return out;
}

bert_hpc::objectives::AnsweredQuestion answer_of(const std::vector<Window>& windows, const AnswerSettings& settings) {
  AnswerCollector collector(settings);
  for (const Window& window : windows) collector.add(best_of(window, settings), window.characters);
  return collector.finish(context);
}

}  // namespace

TEST_CASE("the best span of a window is the best of all that lie in the context and are short enough") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const std::int64_t tokens = 30, begin = 4, end = 27;
  for (const std::int64_t longest : {1, 3, 100}) {
    const AnswerSettings settings = {.n_best = tokens * tokens, .max_answer_tokens = longest};
    std::vector<float> logits;
    for (std::int64_t i = 0; i < 2 * tokens; ++i) logits.push_back(normal(random));
    std::vector<float> out(static_cast<std::size_t>(window_width(settings)));
    best_spans(logits, begin, end, settings, out);
    CHECK(out[0] == logits[0]);
    CHECK(out[1] == logits[1]);
    float best = -INFINITY;
    std::size_t spans = 0;
    for (std::int64_t first = begin; first < end; ++first) {
      for (std::int64_t last = first; last < std::min(end, first + longest); ++last, ++spans) {
        best = std::max(best,
                        logits[static_cast<std::size_t>(2 * first)] + logits[static_cast<std::size_t>(2 * last + 1)]);
      }
    }
    CHECK(out[4] + out[5] == best);
    CHECK(out[2 + 4 * (spans - 1)] >= 0);
    CHECK(out[2 + 4 * spans] == -1);
    for (std::size_t i = 1; i < spans; ++i) {
      CHECK(out[4 * i] + out[4 * i + 1] >= out[4 * i + 4] + out[4 * i + 5]);
    }
  }
}

TEST_CASE("a question's answer is the best of all its windows, as the characters of its context") {
  const AnswerSettings settings = {.n_best = 3};
  const Window first = window_of({{0, 0}, {9, 9}, {1, 2}, {3, 5}}, {{0, 6}, {7, 12}});
  const Window second = window_of({{1, 1}, {9, 9}, {4, 1}, {0, 6}}, {{7, 12}, {13, 18}});
  const auto answer = answer_of({first, second}, settings);
  CHECK(answer.text == "zwölf Äpfel");  // 4 + 6, in the second window
  CHECK(answer.n_best.at(1).text == "zwölf");
  REQUIRE(answer.null_odds);
  CHECK(*answer.null_odds == 0.0 - 10.0);  // the lowest score of "no answer"
  CHECK(answer.n_best.size() == 4);        // three, and "no answer"
  CHECK(answer.n_best.back().text.empty());
  double sum = 0;
  for (const auto& choice : answer.n_best) sum += choice.probability;
  CHECK(sum == Catch::Approx(1.0));
  CHECK(answer.n_best[0].probability / answer.n_best[1].probability == Catch::Approx(std::exp(2.0)));
}

TEST_CASE("no answer wins by more than the threshold, and only where questions may have none") {
  const Window window = window_of({{4, 4}, {0, 0}, {2, 0}, {0, 3}}, {{0, 6}, {7, 12}});
  CHECK(answer_of({window}, {}).text.empty());
  CHECK(*answer_of({window}, {}).null_odds == 3.0);
  CHECK(answer_of({window}, {.null_threshold = 3.0}).text == "Größe: zwölf");
  const auto always = answer_of({window}, {.no_answer = false});
  CHECK(always.text == "Größe: zwölf");
  CHECK_FALSE(always.null_odds);
  for (const auto& choice : always.n_best) CHECK_FALSE(choice.text.empty());
}

TEST_CASE("without a span in the context the answer is none, or the word that Transformers has") {
  const AnswerSettings none;
  std::vector<float> out(static_cast<std::size_t>(window_width(none)));
  const std::vector<float> logits = {1, 1, 5, 5};
  best_spans(logits, 2, 2, none, out);
  AnswerCollector collector(none);
  collector.add(out, std::vector<std::int32_t>{-1, -1, -1, -1});
  const auto answer = collector.finish(context);
  CHECK(answer.n_best.front().text == "empty");
  CHECK(answer.n_best.size() == 2);
}
