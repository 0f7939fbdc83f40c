// Ids against Hugging Face's on hostile strings, and the edges of vocabulary and UTF-8 handling.
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"
#include "support/tests_directory.hpp"

using namespace bert_hpc::tokenize;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;

namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

const std::vector<std::string> specials = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

Vocabulary with_specials(std::vector<std::string> pieces) {
  pieces.insert(pieces.begin(), specials.begin(), specials.end());
  return {pieces, "test"};
}

std::vector<std::int32_t> encode(const Vocabulary& vocabulary, std::string_view text) {
  WordPieceEncoder encoder(vocabulary, uncased);
  std::vector<std::int32_t> ids;
  encoder.encode(text, ids);
  return ids;
}

}  // namespace

TEST_CASE("ids equal those of Transformers on hostile strings") {
  std::ifstream stream(bert_hpc::test::tests_directory() / "golden/tokenizer/ids.json");
  const nlohmann::json golden = nlohmann::json::parse(stream);
  const Vocabulary vocabulary(golden["vocabulary"].get<std::vector<std::string>>(), "ids.json");
  const std::pair<const char*, TextForm> forms[] = {{"uncased", uncased},
                                                    {"cased", cased},
                                                    {"accented", {.strip_accents = false}},
                                                    {"joined", {.tokenize_chinese_chars = false}}};
  for (const auto& [name, form] : forms) {
    WordPieceEncoder encoder(vocabulary, form);
    for (int pass = 0; pass < 2; ++pass) {  // the second is answered from the cache
      for (const nlohmann::json& item : golden["cases"]) {
        std::vector<std::int32_t> ids;
        encoder.encode(from_hex(item["bytes"]), ids);
        INFO("bytes " << item["bytes"] << ' ' << name << ", pass " << pass);
        CHECK(ids == item[name].get<std::vector<std::int32_t>>());
      }
    }
  }
}

TEST_CASE("words are cut into the longest pieces or are unknown") {
  const Vocabulary vocabulary = with_specials({"un", "unaff", "##aff", "##able", "##ab", "a"});
  CHECK(encode(vocabulary, "unaffable") == std::vector<std::int32_t>{6, 8});
  CHECK(encode(vocabulary, "unaffablex a") == std::vector<std::int32_t>{1, 10});
  CHECK(encode(vocabulary, "a[MASK]a [SEP]") == std::vector<std::int32_t>{10, 4, 10, 3});
  CHECK(encode(vocabulary, "").empty());
}

TEST_CASE("a word of more than 100 characters is unknown even if its pieces are there") {
  const Vocabulary vocabulary = with_specials({"a", "##a"});
  CHECK(encode(vocabulary, std::string(100, 'a')).size() == 100);
  CHECK(encode(vocabulary, std::string(101, 'a')) == std::vector<std::int32_t>{1});
  CHECK(encode(vocabulary, std::string(1000000, 'a') + " a") == std::vector<std::int32_t>{1, 5});
}

TEST_CASE("words that share a slot of the cache keep their own ids") {
  std::vector<std::string> pieces;
  for (int i = 0; i < 40000; ++i) pieces.push_back(std::string("w").append(std::to_string(i)));
  const Vocabulary vocabulary = with_specials(pieces);
  WordPieceEncoder encoder(vocabulary, uncased);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 40000; ++i) {
    ids.clear();
    encoder.encode(pieces[static_cast<std::size_t>(i)], ids);
    REQUIRE(ids == std::vector<std::int32_t>{i + 5});
  }
}

TEST_CASE("the error for an incomplete vocabulary names the missing tokens") {
  CHECK_THROWS_AS(Vocabulary({"[PAD]", "[UNK]", "a"}, "vocab.txt"), Error);
  try {
    Vocabulary({"[PAD]", "[UNK]", "a"}, "vocab.txt");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::data);
    CHECK(std::string(error.what()).find("[CLS], [SEP], [MASK]") != std::string::npos);
  }
  try {
    Vocabulary::lines_of("/nowhere/vocab.txt");
    FAIL("a missing file was read");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::files);
  }
}

TEST_CASE("of a piece that is there twice the last counts, and the hash sees order") {
  const Vocabulary twice = with_specials({"a", "b", "a"});
  CHECK(twice.id("a") == 7);
  CHECK(twice.size() == 8);
  CHECK(twice.id("c") == -1);
  CHECK(with_specials({"a", "b"}).hash() != with_specials({"b", "a"}).hash());
  CHECK(with_specials({"ab", "c"}).hash() != with_specials({"a", "bc"}).hash());
}

TEST_CASE("UTF-8 is decoded with replacement as Python does") {
  const auto decoded = [](std::string_view text) {
    std::u32string points;
    const auto* p = reinterpret_cast<const unsigned char*>(text.data());
    const auto* const end = p + text.size();
    while (p < end) points += decode_utf8(p, end);
    return points;
  };
  // Right-hand sides: bytes.decode("utf-8", "replace") of Python 3.
  CHECK(decoded("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") == U"aé€😀");
  CHECK(decoded("\xE2\x82z") == U"\uFFFDz");
  CHECK(decoded("\xF0\x9F\x98z\xF0\x9Fz") == U"\uFFFDz\uFFFDz");
  CHECK(decoded("\xED\xA0\x80") == U"\uFFFD\uFFFD\uFFFD");
  CHECK(decoded("\xC0\x80\xF5\xF4\x90") == U"\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  CHECK(is_valid_utf8("a\xEF\xBF\xBD"));
  CHECK_FALSE(is_valid_utf8("a\xEF\xBF"));
  CHECK(valid_utf8("\xE2\x82z") == "\xEF\xBF\xBDz");
  CHECK(count_characters("\xE2\x82z\xC3\xA9") == 3);
}

TEST_CASE("capitals of a vocabulary are counted in words, not in special tokens and endings") {
  CHECK(capital_share({}) == 0);
  CHECK(capital_share({"[UNK]", "[unused0]", "##A", "a", "ß", "é", "ж", "中", "!", "["}) == 0);
  CHECK(capital_share({"[UNK]", "##b", "a", "b", "aB", "É", "Ж", "c", "d", "e"}) == 3.0 / 8);
}
