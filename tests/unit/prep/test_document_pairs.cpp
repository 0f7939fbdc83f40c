#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <set>

#include "bert_hpc/prep/document_pairs.hpp"

using namespace bert_hpc::prep;

namespace {

/// Documents of 1 to 9 units of 1 to 14 tokens.
struct Text {
  std::vector<Document> documents;
  std::vector<std::int64_t> lengths, begins{0};  // of units: tokens, and tokens before each

  explicit Text(std::size_t count) {
    for (std::size_t d = 0; d < count; ++d) {
      const auto begin = static_cast<RowNumber>(lengths.size());
      for (std::size_t unit = 0; unit < 1 + d * 7 % 9; ++unit) {
        lengths.push_back(1 + static_cast<std::int64_t>((3 * d + 5 * unit) % 14));
        begins.push_back(begins.back() + lengths.back());
      }
      documents.push_back({begin, static_cast<RowNumber>(lengths.size())});
    }
  }

  std::vector<DocumentPair> pairs(const PairOptions& options) const {
    return pairs_of(documents, options, [this](RowNumber unit) { return lengths[unit]; });
  }
  std::size_t document_of(RowNumber unit) const {
    const auto after = std::upper_bound(documents.begin(), documents.end(), unit,
                                        [](RowNumber u, const Document& document) { return u < document.begin; });
    return static_cast<std::size_t>(after - documents.begin()) - 1;
  }
  /// The first token of a passage that was not left out, among all tokens, and the one after its last.
  std::int64_t begin_of(const Passage& passage) const { return begins[passage.unit] + passage.skipped; }
  std::int64_t end_of(const Passage& passage) const { return begin_of(passage) + passage.tokens; }
  std::int64_t end_of_document(const Passage& passage) const {
    return begins[documents[document_of(passage.unit)].end];
  }
};

}  // namespace

TEST_CASE("half of the second passages follow the first, and the others are of another document") {
  const Text text(400);
  const PairOptions options{.room = 40, .seed = 5};
  const std::vector<DocumentPair> pairs = text.pairs(options);
  std::int64_t others = 0, alone = 0, gaps = 0, both = 0;
  std::set<std::size_t> seen;
  for (const DocumentPair& pair : pairs) {
    const std::int64_t tokens = static_cast<std::int64_t>(pair.first.tokens) + pair.second.tokens;
    REQUIRE((pair.first.tokens >= 1 && pair.second.tokens >= 1 && tokens <= options.room));
    REQUIRE(text.end_of(pair.first) <= text.end_of_document(pair.first));
    REQUIRE(text.end_of(pair.second) <= text.end_of_document(pair.second));
    const std::size_t document = text.document_of(pair.first.unit);
    seen.insert(document);
    if (pair.other) {
      REQUIRE(text.document_of(pair.second.unit) != document);
    } else {
      REQUIRE(text.document_of(pair.second.unit) == document);
      REQUIRE(text.end_of(pair.first) <= text.begin_of(pair.second));
      // Pairs that are shorter than the room lack nothing.
      if (tokens < options.room) REQUIRE(text.end_of(pair.first) == text.begin_of(pair.second));
      if (tokens == options.room && text.end_of(pair.first) < text.begin_of(pair.second)) ++gaps;
    }
    const bool last_unit = text.documents[document].end == pair.first.unit + 1;
    (last_unit ? alone : both) += 1;
    if (!last_unit) others += pair.other ? 1 : 0;
  }
  CHECK(seen.size() == text.documents.size());
  CHECK(gaps > 0);  // tokens between the passages are left out, too
  CHECK(alone > 0);
  // Binomial, of `both` pairs: three standard deviations are 1.5·√both.
  CHECK(std::abs(2.0 * static_cast<double>(others) - static_cast<double>(both)) < 3 * std::sqrt(both));
}

TEST_CASE("a pair ends with the unit that fills it, and the next begins with what it did not use") {
  // One document of 40 units of 5 tokens, and one of others to take random passages from.
  Text text(0);
  text.lengths.assign(80, 5);
  text.begins.resize(81);
  for (std::size_t i = 0; i < 81; ++i) text.begins[i] = 5 * static_cast<std::int64_t>(i);
  text.documents = {{0, 40}, {40, 80}};
  const std::vector<DocumentPair> pairs = text.pairs({.room = 20, .seed = 1, .short_probability = 0});
  RowNumber next = 0;
  bool leaves_units = false;
  for (const DocumentPair& pair : pairs) {
    if (pair.first.unit == 40) next = 40;
    REQUIRE(pair.first.unit == next);
    REQUIRE(pair.first.tokens % 5 == 0);  // the target of 20 tokens is met without leaving any out
    next += pair.first.tokens / 5;
    if (pair.other) {
      leaves_units = leaves_units || pair.first.tokens < 15;
    } else {
      REQUIRE(pair.second.unit == next);
      next += pair.second.tokens / 5;
      REQUIRE((next % 40 == 0 || pair.first.tokens + pair.second.tokens == 20));
    }
  }
  CHECK(next == 80);
  CHECK(leaves_units);
}

TEST_CASE("passages in order are swapped half of the time for a model of sentence order") {
  const Text text(400);
  std::int64_t swapped = 0;
  const std::vector<DocumentPair> pairs = text.pairs({.kind = PairKind::sentence_order, .room = 40, .seed = 5});
  for (const DocumentPair& pair : pairs) {
    const Passage &front = pair.other ? pair.second : pair.first, &back = pair.other ? pair.first : pair.second;
    REQUIRE(text.document_of(front.unit) == text.document_of(back.unit));
    REQUIRE(text.end_of(front) <= text.begin_of(back));
    swapped += pair.other ? 1 : 0;
  }
  const auto count = static_cast<double>(pairs.size());
  CHECK(std::abs(2.0 * static_cast<double>(swapped) - count) < 3 * std::sqrt(count));
}

TEST_CASE("a unit alone is cut into two passages, and one of a single token has none") {
  Text text(0);
  text.lengths = {9, 1};
  text.begins = {0, 9, 10};
  text.documents = {{0, 1}, {1, 2}};
  const std::vector<DocumentPair> pairs =
      text.pairs({.kind = PairKind::sentence_order, .room = 20, .seed = 3, .short_probability = 0});
  REQUIRE(pairs.size() == 1);
  const Passage &front = pairs[0].other ? pairs[0].second : pairs[0].first,
                &back = pairs[0].other ? pairs[0].first : pairs[0].second;
  CHECK((front.unit == 0 && front.skipped == 0 && back.unit == 0 && back.skipped == front.tokens));
  CHECK(front.tokens + back.tokens == 9);
}

TEST_CASE("pairs follow from the seed, and one of ten documents has shorter ones") {
  const Text text(300);
  const auto key_of = [&](const PairOptions& options) {
    std::vector<std::int64_t> key;
    for (const DocumentPair& pair : text.pairs(options)) {
      key.insert(key.end(), {pair.first.unit, pair.first.tokens, pair.second.unit, pair.second.skipped, pair.other});
    }
    return key;
  };
  CHECK(key_of({.room = 40, .seed = 1}) == key_of({.room = 40, .seed = 1}));
  CHECK(key_of({.room = 40, .seed = 1}) != key_of({.room = 40, .seed = 2}));
  CHECK(text.pairs({.room = 40, .seed = 1}).size() >
        text.pairs({.room = 40, .seed = 1, .short_probability = 0}).size());
}
