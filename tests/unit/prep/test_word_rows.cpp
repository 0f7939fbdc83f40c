// Texts in words, and the windows that words belong to.
#include "bert_hpc/prep/word_rows.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace bert_hpc::prep;

namespace {

using Integers = std::vector<std::int32_t>;
using Views = std::vector<std::string_view>;

Integers windows_of_words(std::int64_t tokens, std::int64_t room, std::int64_t step, const Integers& ends) {
  Integers found;
  assign_words(windows_of(tokens, room, step), ends, found);
  return found;
}

}  // namespace

TEST_CASE("words end with U+001F, or lie between blanks") {
  CHECK(words_in("a\x1fNew York\x1f\x1f") == Views{"a", "New York", ""});
  CHECK(words_in(" a  b\tc ") == Views{"a", "b", "c"});
  CHECK(words_in("").empty());
  CHECK(count_words(" a  b\tc ") == 3);
  CHECK(words_text("a b") ==
        "a\x1f"
        "b\x1f");
  CHECK(words_text("New York\x1f") == "New York\x1f");
}

TEST_CASE("a word belongs to the window with the most context on its shorter side") {
  // Windows [0, 6), [4, 10): tokens 4 and 5 lie in both.
  CHECK(windows_of_words(10, 6, 4, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) == Integers{0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
  // A word of tokens [4, 6) ends with the first window: no context there, and none in the second, so the first.
  CHECK(windows_of_words(10, 6, 4, {2, 4, 6, 10}) == Integers{0, 0, 0, 1});
  // A word that is cut off by its window.
  CHECK(windows_of_words(10, 6, 4, {3, 9, 10}) == Integers{0, 0, 1});
  CHECK(windows_of_words(5, 6, 4, {1, 5}) == Integers{0, 0});
  CHECK(windows_of_words(0, 6, 4, {}).empty());
}

TEST_CASE("a word without characters has no token of its own") {
  MadeRow row;
  row.word_ends = {2, 3, 4, 5};
  row.empty_words = {1, 3};
  row.ids.resize(7);
  row.sequences.push_back({.end = 7, .first = 7, .document = 1, .window = {0, 5}});
  row.word_window = {0, 0, 0, 0};
  Integers numbers;
  add_word_numbers(row, 0, numbers);
  CHECK(numbers == Integers{-1, 0, 0, -3, 2, -5, -1});
  CHECK(sequence_words(numbers).tokens == Integers{1, 3, 3, 3, 4, 5, 5, 5});
  CHECK(sequence_words(numbers).numbers == Integers{0, 1, 2, 3});
}

TEST_CASE("every word is in one window, whatever the windows") {
  for (std::int64_t room = 1; room < 9; ++room) {
    for (std::int64_t step = 1; step <= room; ++step) {
      Integers ends;
      for (std::int32_t end = 0; end < 30;) ends.push_back(end += 1 + (end * 7 + static_cast<std::int32_t>(room)) % 5);
      MadeRow row;
      row.word_ends = ends;
      std::vector<Window> windows = windows_of(ends.back(), room, step);
      assign_words(windows, row.word_ends, row.word_window);
      Integers found;
      for (std::size_t i = 0; i < windows.size(); ++i) {
        const std::int64_t tokens = windows[i].end - windows[i].begin + 2;  // with one before and one behind
        row.ids.resize(row.ids.size() + static_cast<std::size_t>(tokens));
        row.sequences.push_back({.end = row.ids.size(), .first = tokens, .document = 1, .window = windows[i]});
      }
      for (std::size_t i = 0; i < windows.size(); ++i) {
        Integers numbers;
        add_word_numbers(row, i, numbers);
        CHECK(numbers.front() == -1);
        CHECK(numbers.back() == -1);
        const SequenceWords words = sequence_words(numbers);
        for (std::size_t w = 0; w < words.numbers.size(); ++w) {
          const auto word = static_cast<std::size_t>(words.numbers[w]);
          const std::int32_t begin = word == 0 ? 0 : ends[word - 1];
          CHECK(words.tokens[2 * w] == begin - windows[i].begin + 1);
          CHECK(words.tokens[2 * w + 1] == std::min<std::int64_t>(ends[word], windows[i].end) - windows[i].begin + 1);
        }
        found.insert(found.end(), words.numbers.begin(), words.numbers.end());
      }
      Integers all(ends.size());
      for (std::size_t w = 0; w < all.size(); ++w) all[w] = static_cast<std::int32_t>(w);
      CHECK(found == all);
    }
  }
}
