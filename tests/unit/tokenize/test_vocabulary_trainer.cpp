#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"

using namespace bert_hpc::tokenize;
using Words = std::vector<WordCounts::Entry>;

namespace {

/// The same algorithm without any of the bookkeeping: counts every pair again for every merge.
std::vector<std::string> train_slowly(const Words& words, std::size_t size) {
  std::set<std::string> first, later;
  for (const auto& [word, count] : words) {
    for (std::size_t i = 0; i < word.size(); ++i) {
      first.insert(word.substr(i, 1));
      if (i > 0) later.insert("##" + word.substr(i, 1));
    }
  }
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  pieces.insert(pieces.end(), first.begin(), first.end());
  pieces.insert(pieces.end(), later.begin(), later.end());
  std::map<std::string, int> ids;
  for (std::size_t i = 0; i < pieces.size(); ++i) ids.emplace(pieces[i], static_cast<int>(i));
  std::vector<std::vector<int>> cut;
  for (const auto& [word, count] : words) {
    cut.emplace_back();
    for (std::size_t i = 0; i < word.size(); ++i) cut.back().push_back(ids[(i > 0 ? "##" : "") + word.substr(i, 1)]);
  }
  while (pieces.size() < size) {
    std::map<std::pair<int, int>, std::int64_t> pairs;
    for (std::size_t w = 0; w < words.size(); ++w) {
      for (std::size_t i = 0; i + 1 < cut[w].size(); ++i) pairs[{cut[w][i], cut[w][i + 1]}] += words[w].count;
    }
    if (pairs.empty()) break;
    auto best = pairs.begin();
    for (auto pair = pairs.begin(); pair != pairs.end(); ++pair) {
      if (pair->second > best->second) best = pair;
    }
    const auto [left, right] = best->first;
    const std::string joined =
        pieces[static_cast<std::size_t>(left)] + pieces[static_cast<std::size_t>(right)].substr(2);
    const auto [entry, added] = ids.emplace(joined, static_cast<int>(pieces.size()));
    if (added) pieces.push_back(joined);
    for (auto& word : cut) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != left || word[i + 1] != right) continue;
        word[i] = entry->second;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return pieces;
}

std::vector<std::string> train(const Words& words, std::int32_t size) {
  return WordPieceTrainer(uncased).train(words, size).vocabulary;
}

}  // namespace

TEST_CASE("a vocabulary begins with special tokens and characters, then frequent merges") {
  const Words words = {{"aab", 5}, {"ab", 10}, {"ba", 1}};
  const std::vector<std::string> expected = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b",
                                             "##a",   "##b",   "ab",    "aa",    "aab",    "ba"};
  CHECK(train(words, 100) == expected);
  CHECK(train(words, 10) == std::vector<std::string>(expected.begin(), expected.begin() + 10));
}

TEST_CASE("training with kept counts equals counting again") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::map<std::string, std::int64_t> counts;
    for (std::uint64_t w = 0; w < 60; ++w) {
      const std::uint64_t bits = bert_hpc::core::mix64(seed * 1000 + w);
      std::string word;
      for (std::uint64_t i = 0; i < 1 + bits % 9; ++i) word += static_cast<char>('a' + (bits >> (8 + 4 * i)) % 3);
      counts[word] += static_cast<std::int64_t>(1 + (bits >> 60));
    }
    Words words;
    for (const auto& [word, count] : counts) words.push_back({word, count});
    CHECK(train(words, 60) == train_slowly(words, 60));
  }
}

TEST_CASE("words are counted as they are tokenized") {
  WordCounts counts;
  WordPieceTrainer(uncased).count("Café café, [MASK] x" + std::string(200, 'y'), counts);
  const auto words = counts.sorted();
  REQUIRE(words.size() == 2);
  CHECK(words[0].word == ",");
  CHECK(words[1].word == "cafe");
  CHECK(words[1].count == 2);
}

TEST_CASE("no word is lost from the counts, however many there are") {
  // Far more different words than the table begins with, some beyond its 16 bytes; the short ones come again and again.
  std::map<std::string, std::int64_t> expected;
  WordCounts counts;
  WordPieceTrainer trainer(uncased);
  std::string text;
  for (std::uint64_t i = 0; i < 300000; ++i) {
    std::uint64_t bits = bert_hpc::core::mix64(i);
    std::string word(1 + bits % 18, 'a');
    for (char& letter : word) letter = static_cast<char>('a' + (bits = bert_hpc::core::mix64(bits)) % 4);
    ++expected[word];
    text += word + ' ';
    if (i % 1000 == 999) {
      trainer.count(text, counts);
      text.clear();
    }
    if (i == 150000) CHECK(counts.sorted().size() > 100000);  // counting continues after a look
  }
  const Words found = counts.sorted();
  REQUIRE(found.size() == expected.size());
  std::size_t wrong = 0;
  for (const auto& [word, count] : found) wrong += expected[word] != count;
  CHECK(wrong == 0);
}

TEST_CASE("too small a vocabulary and no text at all are refused") {
  CHECK_THROWS_AS(train({{"abc", 1}}, 9), bert_hpc::core::Error);
  CHECK_THROWS_AS(train({}, 100), bert_hpc::core::Error);
}
