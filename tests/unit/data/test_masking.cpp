// Counts, shares and independence of masks; sorting of ids.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <numeric>
#include <random>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/id_sorter.hpp"
#include "bert_hpc/data/masking.hpp"

using namespace bert_hpc::data;

namespace {

MaskingOptions options(double probability = 0.15) {
  return {.probability = probability, .seed = 1, .vocabulary_size = 1000, .special_ids = {2, 3, 4, 0, 1}};
}

}  // namespace

TEST_CASE("of n tokens that are not special, max(1, round(p n)) are masked, and specials never") {
  Masker masker(options(), 64);
  for (int words = 0; words <= 60; ++words) {
    std::vector<std::int32_t> ids = {2};
    for (int w = 0; w < words; ++w) ids.push_back(5 + w);
    ids.push_back(3);
    const std::vector<std::int32_t> original = ids;
    std::vector<std::int32_t> positions(64), labels(64);
    const auto count = masker.mask(words, 0, ids, positions.data(), labels.data());
    CHECK(count == (words == 0 ? 0 : std::max(1l, std::lround(0.15 * words))));
    CHECK(count <= masker.most(static_cast<std::int64_t>(ids.size())));
    std::vector<bool> masked(ids.size(), false);
    for (std::int64_t m = 0; m < count; ++m) {
      const auto position = static_cast<std::size_t>(positions[static_cast<std::size_t>(m)]);
      if (m > 0) CHECK(positions[static_cast<std::size_t>(m)] > positions[static_cast<std::size_t>(m) - 1]);
      CHECK(labels[static_cast<std::size_t>(m)] == original[position]);
      masked[position] = true;
    }
    CHECK_FALSE(masked.front());
    CHECK_FALSE(masked.back());
    for (std::size_t p = 0; p < ids.size(); ++p) {
      if (!masked[p]) CHECK(ids[p] == original[p]);
    }
  }
}

TEST_CASE("masks: 80% mask token, 10% random, 10% kept; positions even; new each epoch and sample") {
  Masker masker(options(0.5), 10);
  const int draws = 20000;
  std::vector<int> at(10, 0);
  int hidden = 0, kept = 0, random = 0;
  double random_sum = 0;
  std::vector<std::int32_t> first;
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<std::int32_t> ids = {2, 10, 11, 12, 13, 14, 15, 16, 17, 3};
    std::int32_t positions[10], labels[10];
    const auto count = masker.mask(draw / 2, draw % 2, ids, positions, labels);
    REQUIRE(count == 4);
    for (int m = 0; m < 4; ++m) {
      ++at[static_cast<std::size_t>(positions[m])];
      const std::int32_t id = ids[static_cast<std::size_t>(positions[m])];
      if (id == 4) {
        ++hidden;
      } else if (id == labels[m]) {
        ++kept;
      } else {
        ++random;
        random_sum += id;
      }
    }
    if (draw == 0) first.assign(positions, positions + 4);
  }
  // 80,000 masked tokens, binomial: standard deviations 113 and 85. Random ids hit mask or the original in 2 of 1000.
  CHECK(std::abs(hidden - 0.8001 * 80000) < 6 * 113);
  CHECK(std::abs(kept - 0.1001 * 80000) < 6 * 85);
  CHECK(std::abs(random - 0.0998 * 80000) < 6 * 85);
  // Uniform on 0 … 999: mean 499.5, standard deviation of the mean of 8000 289 / sqrt(8000) = 3.2.
  CHECK(std::abs(random_sum / random - 499.5) < 6 * 3.2);
  // Each of 8 positions is drawn with probability 1/2: standard deviation sqrt(20000)/2 = 71.
  for (std::size_t p = 1; p < 9; ++p) CHECK(std::abs(at[p] - draws / 2) < 6 * 71);
}

TEST_CASE("unknown words and mask tokens of the text are never to be predicted") {
  Masker masker(options(1.0), 10);
  std::vector<std::int32_t> ids = {2, 1, 10, 4, 1, 11, 4, 3};  // 1: [UNK], 4: [MASK]
  std::int32_t positions[10], labels[10];
  REQUIRE(masker.mask(0, 0, ids, positions, labels) == 2);
  CHECK(std::vector<std::int32_t>(positions, positions + 2) == std::vector<std::int32_t>{2, 5});
  CHECK(std::vector<std::int32_t>(labels, labels + 2) == std::vector<std::int32_t>{10, 11});
  for (const std::size_t p : {1u, 4u}) CHECK(ids[p] == 1);
  std::vector<std::int32_t> nothing = {2, 1, 4, 3};
  CHECK(masker.mask(0, 0, nothing, positions, labels) == 0);
}

TEST_CASE("a mask depends on seed, epoch and sample only") {
  const auto positions_of = [](Masker& masker, std::int64_t sample, std::int64_t epoch) {
    std::vector<std::int32_t> ids(100, 7), positions(100), labels(100);
    positions.resize(static_cast<std::size_t>(masker.mask(sample, epoch, ids, positions.data(), labels.data())));
    return positions;
  };
  Masker a(options(), 100), b(options(), 200);
  positions_of(b, 99, 5);
  const auto reference = positions_of(a, 3, 1);
  CHECK(positions_of(b, 3, 1) == reference);
  CHECK(positions_of(a, 4, 1) != reference);
  CHECK(positions_of(a, 3, 2) != reference);
  CHECK(positions_of(a, 3 + (std::int64_t{1} << 32), 1) != reference);
  MaskingOptions other = options();
  other.seed = 2;
  Masker c(other, 100);
  CHECK(positions_of(c, 3, 1) != reference);
}

TEST_CASE("whole words are masked with all their tokens or not at all, and no word is left out that fits") {
  MaskingOptions whole = options();
  whole.continues_word.assign(1000, false);  // ids from 500 on continue a word
  std::fill(whole.continues_word.begin() + 500, whole.continues_word.end(), true);
  Masker masker(whole, 128);
  std::mt19937 random(3);
  std::int64_t masked_words = 0, masked_parts = 0;
  for (int sample = 0; sample < 2000; ++sample) {
    std::vector<std::int32_t> ids = {2, 700};  // what follows a special token begins a word
    const int length = 3 + static_cast<int>(random() % 120);
    while (std::ssize(ids) < length) {
      const auto kind = random() % 10;
      ids.push_back(kind == 0  ? 3
                    : kind < 6 ? 5 + static_cast<int>(random() % 495)
                               : 500 + static_cast<int>(random() % 500));
    }
    ids.push_back(3);
    std::vector<std::vector<std::size_t>> words;
    std::int64_t tokens = 0;
    for (std::size_t p = 0; p < ids.size(); ++p) {
      if (ids[p] <= 4) continue;
      ++tokens;
      if (ids[p] < 500 || ids[p - 1] <= 4) words.emplace_back();
      words.back().push_back(p);
    }
    std::vector<std::int32_t> positions(128), labels(128);
    const std::vector<std::int32_t> original = ids;
    const std::int64_t count = masker.mask(sample, 0, ids, positions.data(), labels.data());
    const std::int64_t most = std::max(1l, std::lround(0.15 * static_cast<double>(tokens)));
    REQUIRE(count <= most);
    REQUIRE(most <= masker.most(std::ssize(ids)));
    std::vector<int> masked(ids.size(), 0);
    for (std::int64_t m = 0; m < count; ++m) {
      const auto at = static_cast<std::size_t>(m), position = static_cast<std::size_t>(positions[at]);
      if (m > 0) CHECK(positions[at] > positions[at - 1]);
      CHECK(labels[at] == original[position]);
      masked[position] = 1;
    }
    for (const std::vector<std::size_t>& word : words) {
      std::int64_t parts = 0;
      for (const std::size_t p : word) parts += masked[p];
      const std::int64_t size = std::ssize(word);
      CHECK((parts == size || (parts == 0 && size > most - count)));
      masked_words += parts > 0 ? 1 : 0;
      masked_parts += parts;
    }
  }
  CHECK(masked_parts > masked_words + 2000);  // words of several tokens are among them
}

TEST_CASE("whole words of one token each are masked as tokens are") {
  MaskingOptions whole = options(0.4);
  whole.continues_word.assign(1000, false);
  Masker words(whole, 50), tokens(options(0.4), 50);
  for (int sample = 0; sample < 50; ++sample) {
    std::vector<std::int32_t> a(50), b, positions[2], labels[2];
    std::iota(a.begin(), a.end(), 5);
    b = a;
    for (int i = 0; i < 2; ++i) positions[i].resize(50), labels[i].resize(50);
    CHECK(words.mask(sample, 1, a, positions[0].data(), labels[0].data()) ==
          tokens.mask(sample, 1, b, positions[1].data(), labels[1].data()));
    CHECK(a == b);
    CHECK(positions[0] == positions[1]);
    CHECK(labels[0] == labels[1]);
  }
}

TEST_CASE("words of two tokens are drawn evenly, and each of their tokens has a fate of its own") {
  MaskingOptions whole = options(0.5);
  whole.continues_word.assign(1000, false);
  std::fill(whole.continues_word.begin() + 500, whole.continues_word.end(), true);
  Masker masker(whole, 8);
  const int draws = 20000;
  std::vector<int> drawn(4, 0);
  int both_hidden = 0;
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<std::int32_t> ids = {10, 510, 11, 511, 12, 512, 13, 513};
    std::int32_t positions[8], labels[8];
    REQUIRE(masker.mask(draw, 0, ids, positions, labels) == 4);
    for (int m = 0; m < 4; m += 2) {
      const auto first = static_cast<std::size_t>(positions[m]);
      ++drawn[first / 2];
      both_hidden += ids[first] == 4 && ids[first + 1] == 4 ? 1 : 0;
    }
  }
  // Binomial: each of four words is one of the two with probability 1/2, standard deviation 71; both tokens of 40,000
  // words are hidden with probability 0.8001², standard deviation 96.
  for (const int count : drawn) CHECK(std::abs(count - draws / 2) < 6 * 71);
  CHECK(std::abs(both_hidden - 0.64016 * 40000) < 6 * 96);
}

TEST_CASE("a tokenizer without a mask token cannot serve masked language modelling") {
  MaskingOptions none = options();
  none.special_ids.mask = -1;
  CHECK_THROWS_AS(Masker(none, 10), bert_hpc::core::Error);
}

TEST_CASE("ids are sorted stably, at every vocabulary size") {
  std::mt19937 random(5);
  for (const std::int64_t vocabulary : {1, 2, 3, 255, 256, 257, 2048, 2049, 30522, 250002}) {
    IdSorter sorter(3000, vocabulary);
    for (const std::size_t tokens : {0u, 1u, 2u, 100u, 3000u}) {
      std::vector<std::int32_t> input(tokens), ids(tokens), segments(tokens + 1), order(tokens), expected(tokens);
      for (auto& id : input) id = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocabulary));
      if (tokens > 1) input[1] = static_cast<std::int32_t>(vocabulary - 1);
      std::iota(expected.begin(), expected.end(), 0);
      std::stable_sort(expected.begin(), expected.end(), [&](auto a, auto b) {
        return input[static_cast<std::size_t>(a)] < input[static_cast<std::size_t>(b)];
      });
      const auto unique = static_cast<std::size_t>(sorter.sort(input, ids.data(), segments.data(), order.data()));
      CHECK(order == expected);
      std::vector<std::int32_t> distinct = input;
      std::sort(distinct.begin(), distinct.end());
      distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
      ids.resize(unique);
      CHECK(ids == distinct);
      CHECK(segments[unique] == static_cast<std::int32_t>(tokens));
      for (std::size_t u = 0; u < unique; ++u) {
        CHECK(input[static_cast<std::size_t>(order[static_cast<std::size_t>(segments[u])])] == ids[u]);
      }
    }
  }
}
