// Unigram against Hugging Face's tokenizers (tests/golden/tokenizer/make_unigram.py) and by hand.
#include "bert_hpc/tokenize/unigram.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"
#include "support/counted_heap.hpp"
#include "support/temporary_directory.hpp"
#include "support/temporary_file.hpp"
#include "support/tokenizer_golden.hpp"

using namespace bert_hpc::tokenize;
using bert_hpc::test::TokenizerGolden;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using Ids = std::vector<std::int32_t>;

namespace {

const TokenizerGolden& golden() {
  static const TokenizerGolden read("unigram.json");
  return read;
}

std::string problem_after(const std::function<void(json&)>& change) {
  return golden().problem_after(change);
}

}  // namespace

TEST_CASE("ids and offsets of Unigram equal those of tokenizers on hostile texts, in every form") {
  for (const json& one : golden().cases()) golden().check_texts(*golden().tokenizer_of(one, unigram_kind()), one);
}

TEST_CASE("a written tokenizer.json of Unigram reads back to the same tokenizer") {
  golden().check_written(unigram_kind());
}

TEST_CASE("templates of Unigram tokenizers stand around texts and pairs") {
  for (const json& one : golden().cases()) {
    INFO(one["name"]);
    const auto tokenizer = golden().tokenizer_of(one, unigram_kind());
    golden().check_sequences(*tokenizer, one, "the", "a");
    Ids words;
    const auto encoder = tokenizer->encoder();
    for (const char* word : {"the", "Don't", "12"}) encoder->encode(word, words);
    const bool marks_first =
        one["name"] == "first" || one["name"] == "blanks, first" || one["name"] == "deberta, split";
    if (!marks_first) CHECK(words == one["words"].get<Ids>());
  }
  const auto xlm = golden().tokenizer_of(golden().cases()[0], unigram_kind());
  CHECK(xlm->special_ids().cls == 0);
  CHECK(xlm->special_ids().pad == 1);
  CHECK(xlm->special_ids().sep == 2);
  CHECK(xlm->special_ids().unk == 3);
  CHECK(xlm->tokens()[static_cast<std::size_t>(xlm->special_ids().mask)] == "<mask>");
}

TEST_CASE(
    "of paths with equal scores the one of the longer first piece stays, and unknown characters are the last choice") {
  json document = golden().cases()[4]["tokenizer"];  // without marks and normalizer
  document["added_tokens"] = json::array();
  document["post_processor"] = nullptr;
  document["model"]["unk_id"] = 0;
  document["model"]["vocab"] = json::array();
  for (const auto& [piece, score] : {std::pair("<unk>", 0.0), std::pair("a", -1.0), std::pair("b", -1.0),
                                     std::pair("ab", -2.0), std::pair("y", -1.0), std::pair("xy", -9.0)}) {
    document["model"]["vocab"].push_back(json::array({piece, score}));
  }
  const auto tokenizer = golden().tokenizer_of({{"tokenizer", document}}, unigram_kind());
  const auto ids = [&](std::string_view text) {
    Ids found;
    tokenizer->encoder()->encode(text, found);
    return found;
  };
  CHECK(ids("ab") == Ids{3});  // −2 as a and b
  CHECK(ids("xy") == Ids{5});  // −9, and −19 − 1 with an unknown x
  CHECK(ids("yx") == Ids{4, 0});
  CHECK(ids("xxa") == Ids{0, 1});  // neighbouring unknown characters are one token
  CHECK(ids(std::string_view("a\0b", 3)) == Ids{1, 0, 2});
}

TEST_CASE("normalized added tokens of Unigram are searched for in what the normalizer makes of text") {
  json document = golden().cases()[0]["tokenizer"];
  const std::int32_t first = document["added_tokens"].back()["id"].get<std::int32_t>() + 1;
  const auto add = [&](const char* content, std::int32_t id) {
    document["added_tokens"].push_back({{"id", id}, {"content", content}, {"normalized", true}, {"rstrip", true}});
  };
  add("fi", first);
  add("\u2026", first + 1);  // which becomes "..."
  const auto tokenizer = golden().tokenizer_of({{"tokenizer", document}}, unigram_kind());
  const auto check = [&](const char* text, const Ids& expected, const std::vector<TokenSpan>& expected_spans) {
    Ids ids, plain;
    std::vector<TokenSpan> spans;
    tokenizer->encoder()->encode_with_spans(text, ids, spans);
    tokenizer->encoder()->encode(text, plain);
    CHECK(ids == plain);
    CHECK(ids == expected);
    CHECK(spans == expected_spans);
  };
  check("\uFB01fi...", {first, first, first + 1}, {{0, 1}, {1, 3}, {3, 6}});
  check("fi  \u2026", {first, first + 1}, {{0, 4}, {4, 5}});
}

TEST_CASE("Unigram encodes without allocating once its words are known") {
  const auto tokenizer = golden().tokenizer_of(golden().cases()[0], unigram_kind());
  const auto encoder = tokenizer->encoder();
  const std::string text =
      "The 12 monkeys ate 1,234 bananas, e\xCC\x81 and pneumonoultramicroscopicsilicovolcanoconiosis.";
  Ids ids;
  encoder->encode(text, ids);
  ids.clear();
  const std::int64_t before = bert_hpc::test::allocations_so_far();
  encoder->encode(text, ids);
  CHECK(bert_hpc::test::allocations_so_far() == before);
}

TEST_CASE("what a Unigram tokenizer.json has that is not computed is named") {
  const auto has = [](const char* text) { return ContainsSubstring(text); };
  CHECK(problem_after([](json&) {}) == "no problem");
  CHECK_THAT(problem_after([](json& d) {
               d["normalizer"] = {{"type", "NFKC"}};
             }),
             has("its normalizer is of type \"NFKC\"; this version reads Lowercase, NFC, NFKD, Precompiled, "
                 "Prepend, Replace, Strip and StripAccents before Unigram."));
  CHECK_THAT(problem_after([](json& d) {
               d["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}};
             }),
             has("its normalizer replaces {\"Regex\":\"\\\\s+\"}; this version reads texts, \" {2,}\" and "
                 "\"\\\\s{2,}|[\\\\n\\\\r\\\\t]\"."));
  CHECK_THAT(problem_after([](json& d) { d["normalizer"]["precompiled_charsmap"] = "AAAA"; }),
             has("its precompiled_charsmap is damaged"));
  CHECK_THAT(problem_after([](json& d) { d["normalizer"]["precompiled_charsmap"] = "?"; }), has("is no base64"));
  CHECK_THAT(problem_after([](json& d) {
               d["pre_tokenizer"] = {{"type", "ByteLevel"}};
             }),
             has("its pre_tokenizer is of type \"ByteLevel\"; this version reads Metaspace"));
  CHECK_THAT(problem_after([](json& d) {
               d["pre_tokenizer"]["pretokenizers"][0] = {{"type", "Punctuation"}, {"behavior", "Removed"}};
             }),
             has("its pre_tokenizer is of type \"Punctuation\", of type \"Metaspace\"; this version reads Metaspace, "
                 "alone or behind WhitespaceSplit and Punctuation (Isolated), before Unigram."));
  CHECK_THAT(problem_after([](json& d) { d["pre_tokenizer"]["pretokenizers"][1]["replacement"] = "_"; }),
             has("its pre_tokenizer marks words with \"_\""));
  CHECK_THAT(problem_after([](json& d) { d["model"]["unk_id"] = nullptr; }), has("model.unk_id is null"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["unk_id"] = 100000; }), has("model.unk_id is 100000"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["vocab"][7] = "text"; }),
             has("model.vocab has the element 7, which is no piece with its score"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["vocab"][8] = d["model"]["vocab"][9]; }), has("twice"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["vocab"] = json::array(); }),
             has("model.vocab is missing or empty"));
  CHECK_THAT(problem_after([](json& d) { d["post_processor"]["special_tokens"]["<s>"]["ids"] = {9}; }),
             has("its post_processor gives the token \"<s>\" the id 9"));
}
