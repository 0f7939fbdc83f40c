// Unicode's normal form C against Hugging Face's tokenizers (tests/golden/tokenizer/make_modernbert.py), and by hand.
#include "bert_hpc/tokenize/composition.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>

#include "bert_hpc/tokenize/utf8.hpp"
#include "support/counted_heap.hpp"
#include "support/tokenizer_golden.hpp"

using namespace bert_hpc::tokenize;
using nlohmann::json;

namespace {

const json& golden_forms() {
  static const bert_hpc::test::TokenizerGolden read("modernbert.json");
  return read.file()["normal_form"];
}

std::string composed_of(std::string_view text) {
  NormalizedText composed;
  compose(text, composed);
  return composed.bytes;
}

std::string utf8_of(char32_t point) {
  char bytes[4];
  return {bytes, static_cast<std::size_t>(encode_utf8(point, bytes) - bytes)};
}

std::vector<std::int32_t> numbers_to(std::size_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

TEST_CASE("each code point by itself becomes what tokenizers makes of it") {
  const auto changed = golden_forms()["changed"].get<std::string>();
  const auto& forms = golden_forms()["changed_composed"];
  std::size_t at = 0, found = 0, wrong = 0;
  for (char32_t point = 0; point < 0x110000; ++point) {
    if (point >= 0xD800 && point < 0xE000) continue;
    const std::string text = utf8_of(point);
    const bool changes = changed.compare(at, text.size(), text) == 0;
    const std::string form = changes ? forms[found].get<std::string>() : text;
    wrong += composed_of(text) != form || (changes && is_composed(text));
    at += changes ? text.size() : 0;
    found += changes;
  }
  CHECK(found == forms.size());
  CHECK(found > 1000);
  CHECK(wrong == 0);
}

TEST_CASE("what all characters consist of becomes these characters again, or what tokenizers makes of it") {
  const json &decomposed = golden_forms()["apart"], &composed = golden_forms()["composed"];
  CHECK(decomposed.size() > 2000);
  for (std::size_t i = 0; i < decomposed.size(); ++i) {
    INFO(decomposed[i]);
    CHECK(composed_of(decomposed[i].get<std::string>()) == composed[i]);
    CHECK(is_composed(decomposed[i].get<std::string>()) <= (decomposed[i] == composed[i]));
  }
}

TEST_CASE("syllables of Hangul are made of their letters, by pairs and by threes") {
  std::size_t wrong = 0;
  for (char32_t point = 0xAC00; point <= 0xD7A3; ++point) {
    const char32_t index = point - 0xAC00, tail = index % 28;
    const std::string open = utf8_of(0x1100 + index / 588) + utf8_of(0x1161 + index % 588 / 28);
    const std::string letters = tail == 0 ? open : open + utf8_of(0x11A7 + tail);
    wrong += composed_of(letters) != utf8_of(point) || composed_of(utf8_of(point)) != utf8_of(point);
    wrong += tail != 0 && composed_of(utf8_of(point - tail) + utf8_of(0x11A7 + tail)) != utf8_of(point);
  }
  CHECK(wrong == 0);
}

TEST_CASE("random marks, letters and syllables become what tokenizers makes of them, from the same characters") {
  NormalizedText composed;
  for (const json& one : golden_forms()["random"]) {
    INFO(one);
    const auto text = one[0].get<std::string>();
    compose(text, composed);
    CHECK(composed.bytes == one[1]);
    CHECK(composed.origins == one[2].get<std::vector<std::int32_t>>());
    if (is_composed(text)) CHECK(composed.bytes == text);
  }
}

TEST_CASE("characters between stretches that change keep their positions") {
  NormalizedText composed;
  compose("ab e\u0301x\u212b \u0316y", composed);
  CHECK(composed.bytes == "ab \u00e9x\u00c5 \u0316y");
  CHECK(composed.origins == std::vector<std::int32_t>{0, 1, 2, 3, 5, 6, 7, 8, 9});
  const std::string plain = "the caf\u00e9, \ud55c\uae00 \u4e2d and more";
  CHECK(is_composed(plain));
  compose(plain, composed);
  CHECK(composed.bytes == plain);
  CHECK(composed.origins == numbers_to(static_cast<std::size_t>(count_characters(plain))));
  compose("", composed);
  CHECK(composed.bytes.empty());
  CHECK(composed.origins.empty());
  CHECK(is_composed(""));
}

TEST_CASE("marks without an end are put in order, and no memory is allocated again") {
  std::string text = "a", sorted;
  for (int i = 0; i < 20000; ++i) text += "\u0301\u0316";
  NormalizedText composed;
  compose(text, composed);
  for (int i = 0; i < 20000; ++i) sorted += "\u0316";
  for (int i = 1; i < 20000; ++i) sorted += "\u0301";
  CHECK(composed.bytes == "\u00e1" + sorted);  // marks of a lower class do not keep the first one away
  const std::int64_t before = bert_hpc::test::allocations_so_far();
  compose(text, composed);
  CHECK(bert_hpc::test::allocations_so_far() == before);
}
