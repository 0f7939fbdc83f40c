// Words by number: each keeps its number, and the tokens of numbered words are those of the text.
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/tokenize/vocabulary_trainer.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"

using namespace bert_hpc::tokenize;

TEST_CASE("words are numbered as they first come, however many and long they are") {
  WordNumbers words;
  std::map<std::string, std::int32_t> expected;
  bool right = true;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    std::uint64_t bits = bert_hpc::core::mix64(i);
    std::string word(1 + bits % 20, 'a');
    for (char& letter : word) letter = static_cast<char>('a' + (bits = bert_hpc::core::mix64(bits)) % 3);
    const std::int32_t next = words.size();
    const std::int32_t number = words.number_of(word);
    const auto [entry, added] = expected.try_emplace(word, next);
    right = right && number == entry->second && words.size() == next + (added ? 1 : 0);
  }
  CHECK(right);
  REQUIRE(words.size() == WordNumbers::first_word + static_cast<std::int32_t>(expected.size()));
  for (const auto& [word, number] : expected) right = right && words.word(number) == word;
  CHECK(right);
}

namespace {

/// Letters with and without accents, marks, ideographs, signs, blanks, controls, special tokens, damaged UTF-8, and
/// words that are too long.
std::string nasty_text(std::mt19937_64& random) {
  const std::string parts[] = {"a",
                               "B",
                               "abc",
                               "É",
                               "é",
                               "e\u0301",
                               "\u0301",
                               "ß",
                               "İ",
                               "ﬁ",
                               "中",
                               "文",
                               "!",
                               "-",
                               "[MASK]",
                               "[UNK]",
                               "[CLS]",
                               "[",
                               " ",
                               "\t",
                               "\n",
                               "\u00a0",
                               "\u200b",
                               "\x01",
                               "\xff",
                               "\xe4\xb8",
                               "𝒳",
                               "한국",
                               "हिन्दी",
                               "ы",
                               "aaaaaaaaaaaaaaaaaaaaaaa",
                               std::string(120, 'z')};
  std::string text;
  const std::uint64_t count = random() % 40;
  for (std::uint64_t i = 0; i < count; ++i) text += parts[random() % std::size(parts)];
  return text;
}

}  // namespace

TEST_CASE("tokens of numbered words are the tokens of the text") {
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "##bc", "b",  "##b",
                                     "e",     "é",     "E",     "É",     "中",     "!", "-",   "ss",   "ß",  "##ß",
                                     "i",     "##̇",    "fi",    "ﬁ",     "ы",      "z", "##z", "##e",  "한", "ह"};
  const Vocabulary vocabulary(std::move(pieces), "test");
  for (const bool lowercase : {true, false}) {
    TextForm form;
    form.lowercase = lowercase;
    form.strip_accents = lowercase;
    WordPieceEncoder encoder(vocabulary, form);
    WordPieceTrainer trainer(form);
    WordNumbers words;
    std::mt19937_64 random(1);
    bool right = true;
    std::size_t tokens = 0;
    for (int i = 0; right && i < 20000; ++i) {
      const std::string text = nasty_text(random);
      std::vector<std::int32_t> expected, numbers, ids;
      encoder.encode(text, expected);
      trainer.read(text, words, numbers);
      for (const std::int32_t number : numbers) {
        if (number < WordNumbers::first_word) {
          ids.push_back(vocabulary.special().*special_roles[static_cast<std::size_t>(number)].id);
        } else {
          encoder.encode_word(words.word(number), ids);
        }
      }
      INFO(text);
      right = ids == expected;
      CHECK(right);
      tokens += ids.size();
    }
    CHECK(tokens > 100000);
  }
}
