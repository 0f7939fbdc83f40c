// tokenizer.json as Transformers writes it, refused files of other kinds, and limits on hostile files.
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "support/memory_taken.hpp"
#include "support/temporary_file.hpp"
#include "support/tests_directory.hpp"

using namespace bert_hpc::tokenize;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using bert_hpc::test::TemporaryFile;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

std::string golden(const std::string& form) {
  return (bert_hpc::test::tests_directory() / ("golden/tokenizer/tokenizer_" + form + ".json")).string();
}

std::string text_of(const std::string& path) {
  return bert_hpc::core::read_text_file(path, 1 << 20);
}

TokenizerJson read(const std::string& text) {
  return read_tokenizer_json(TemporaryFile(text).path());
}

std::string refusal(const std::string& text) {
  try {
    read(text);
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::files);
    return error.what();
  }
}

/// The problems of the uncased golden file after `change`, joined.
std::string problems_after(const std::function<void(json&)>& change) {
  json document = json::parse(text_of(golden("uncased")));
  change(document);
  const TokenizerJson result = read(document.dump());
  std::string all = result.vocabulary_problem;
  for (const std::string& problem : result.problems) all += problem;
  CHECK(result.parts.vocabulary.empty() == (result.kind != "WordPiece" || !result.vocabulary_problem.empty()));
  return all;
}

}  // namespace

TEST_CASE("files that Transformers saves are read, and written with the same bytes") {
  for (const auto& [name, form] : {std::pair{"uncased", uncased}, std::pair{"cased", cased}}) {
    INFO(name);
    const TokenizerJson result = read_tokenizer_json(golden(name));
    CHECK(result.kind == "WordPiece");
    CHECK(result.problems.empty());
    CHECK(result.vocabulary_problem.empty());
    CHECK(result.parts.settings == settings_of(form));
    REQUIRE(result.parts.vocabulary.size() == 26);
    CHECK(result.parts.vocabulary[2] == "[UNK]");
    CHECK(result.parts.vocabulary[9] == "\x01");
    CHECK(result.parts.vocabulary[19] == "\xF0\x9F\x98\x80");
    const Vocabulary vocabulary(result.parts.vocabulary, name);
    CHECK(tokenizer_json_text(vocabulary, form) == text_of(golden(name)));
  }
}

TEST_CASE("a piece that a vocabulary has twice is written once, with its last id") {
  const Vocabulary twice({"[PAD]", "a", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"}, "test");
  const TokenizerJson result = read(tokenizer_json_text(twice, uncased));
  CHECK_THAT(result.vocabulary_problem, ContainsSubstring("has 6 entries and gives the piece \"a\" the id 6"));
  CHECK(result.problems.empty());
}

TEST_CASE("sections that mean the same are read as the same") {
  const auto same = [](const std::function<void(json&)>& change) { CHECK(problems_after(change).empty()); };
  same([](json& d) { d["normalizer"] = {{"type", "Sequence"}, {"normalizers", {d["normalizer"]}}}; });
  same([](json& d) { d["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {d["pre_tokenizer"]}}}; });
  same([](json& d) { d["normalizer"]["strip_accents"] = nullptr; });
  same([](json& d) {
    d["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"[SEP]", 4}}, {"cls", {"[CLS]", 3}}};
  });
  same([](json& d) { d["truncation"] = {{"max_length", 8}, {"direction", "Right"}}; });
  same([](json& d) { d["padding"] = {{"strategy", {{"Fixed", 8}}}}; });
  same([](json& d) { d["model"].erase("type"); });
  same([](json& d) { d["added_tokens"].erase(1); });
  same([](json& d) {
    d["added_tokens"].push_back({{"id", 26}, {"content", "[E1]"}, {"normalized", false}, {"special", true}});
  });
}

TEST_CASE("errors name features that this version does not support") {
  const auto named = [](const char* words, const std::function<void(json&)>& change) {
    CHECK_THAT(problems_after(change), ContainsSubstring(words));
  };
  named("holds a Trie tokenizer; this version reads WordPiece, byte-level BPE, BPE with ▁, Unigram and letters",
        [](json& d) { d["model"]["type"] = "Trie"; });
  named("holds a WordLevel tokenizer whose normalizer is not null; this version reads only those of letters",
        [](json& d) { d["model"]["type"] = "WordLevel"; });
  named("has no model", [](json& d) { d.erase("model"); });
  named("model.unk_token is \"<unk>\"", [](json& d) { d["model"]["unk_token"] = "<unk>"; });
  named("model.continuing_subword_prefix is \"@@\"", [](json& d) { d["model"]["continuing_subword_prefix"] = "@@"; });
  named("model.max_input_chars_per_word is 50; this version reads only 100",
        [](json& d) { d["model"]["max_input_chars_per_word"] = 50; });
  named("its normalizer is missing", [](json& d) { d["normalizer"] = nullptr; });
  named("its normalizer is of type \"NFC\"", [](json& d) { d["normalizer"] = {{"type", "NFC"}}; });
  named("its normalizer is of type \"Sequence\"", [](json& d) {
    d["normalizer"] = {{"type", "Sequence"}, {"normalizers", {d["normalizer"], {{"type", "NFC"}}}}};
  });
  named("normalizer.clean_text is false", [](json& d) { d["normalizer"]["clean_text"] = false; });
  named("normalizer.lowercase is null", [](json& d) { d["normalizer"].erase("lowercase"); });
  named("its pre_tokenizer is of type \"Whitespace\"", [](json& d) { d["pre_tokenizer"]["type"] = "Whitespace"; });
  named("its post_processor is missing", [](json& d) { d.erase("post_processor"); });
  named("its post_processor is of type \"TemplateProcessing\" and makes neither",
        [](json& d) { d["post_processor"]["special_tokens"]["[SEP]"]["ids"] = {3}; });
  named("its post_processor is of type \"TemplateProcessing\"",
        [](json& d) { d["post_processor"]["pair"][4]["SpecialToken"]["type_id"] = 0; });
  named("added_tokens gives [UNK] the id 7, and model.vocab 2", [](json& d) { d["added_tokens"][1]["id"] = 7; });
  named("normalized = true for [PAD]", [](json& d) { d["added_tokens"][0]["normalized"] = true; });
  named("added_tokens has \"x\", which is no object", [](json& d) { d["added_tokens"].push_back("x"); });
}

TEST_CASE("a vocabulary has the ids from 0 on, each once") {
  const auto vocabulary = [](const char* words, const std::string& entries) {
    std::string text = json::parse(text_of(golden("uncased"))).dump();
    const std::size_t begin = text.find("\"vocab\":{") + 9, end = text.find('}', begin);
    text.replace(begin, end - begin, entries);
    const TokenizerJson result = read(text);
    CHECK(result.parts.vocabulary.empty());
    CHECK_THAT(result.vocabulary_problem, ContainsSubstring(words));
  };
  vocabulary("missing or empty", "");
  vocabulary("has 2 entries and gives the piece \"b\" the id 2; ids must be 0 to 1, each once", R"("a":0,"b":2)");
  vocabulary("gives the id 0 to \"a\" and \"b\"", R"("a":0,"b":0)");
  vocabulary("has the piece \"a\" twice", R"("a":0,"a":1)");
  for (const char* id : {"-1", "0.5", "\"0\"", "null", "[0]", "{\"x\":0}", "4294967296", "18446744073709551615"}) {
    vocabulary("gives the piece \"a\" an id that is not a whole number from 0 on", std::string("\"a\":") + id);
  }
  vocabulary("a line end or a zero byte", R"("a\nb":0)");
  vocabulary("a line end or a zero byte", R"("a\u0000b":0)");
}

TEST_CASE("a vocabulary of half a million entries is read") {
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  while (pieces.size() < 500000) pieces.push_back("##w" + std::to_string(pieces.size()));
  const std::string text = tokenizer_json_text(Vocabulary(pieces, "test"), uncased);
  const TokenizerJson result = read(text);
  CHECK(result.problems.empty());
  CHECK(result.parts.vocabulary == pieces);
}

TEST_CASE("files that are no tokenizer.json are refused") {
  CHECK_THAT(refusal(""), ContainsSubstring("is not valid JSON"));
  CHECK_THAT(refusal("{\"model\": "), ContainsSubstring("is not valid JSON"));
  CHECK_THAT(refusal(std::string("{}\0", 3)), ContainsSubstring("zero byte"));
  CHECK_THAT(refusal("[]"), ContainsSubstring("is not a JSON object"));
  CHECK_THAT(refusal("3"), ContainsSubstring("is not a JSON object"));
  CHECK_THAT(refusal("{\"a\": 1, \"a\": 2}"), ContainsSubstring("the key \"a\" occurs twice"));
  CHECK_THAT(refusal("{\"model\": {\"vocab\": {}, \"vocab\": {}}}"),
             ContainsSubstring("the key \"vocab\" occurs twice"));
  CHECK_THAT(refusal("{\"model\": {\"vocab\": {\"\xFF\": 0}}}"), ContainsSubstring("is not valid JSON"));
  CHECK_THROWS_AS(read_tokenizer_json("/nowhere/tokenizer.json"), Error);
}

TEST_CASE("hostile files take little memory before they are refused") {
  const auto refused = [](const std::string& text, const char* why) {
    const TemporaryFile file(text);
    CHECK(bert_hpc::test::memory_taken([&] { read_tokenizer_json(file.path()); }) < std::int64_t{64} << 20);
    CHECK_THAT(refusal(text), ContainsSubstring(why));
  };
  refused(std::string(std::size_t{4} << 20, '['), "nests deeper");
  refused("{\"model\":{\"vocab\":{\"a\":" + std::string(20, '[') + std::string(20, ']') + "}}}", "nests deeper");
  std::string lists = "{\"a\":[[]";
  for (int i = 0; i < 1000000; ++i) lists += ",[]";
  refused(lists + "]}", "more values");
  std::string many = "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"\":0";
  for (int i = 0; i < (1 << 20) + 1; ++i) many += ",\"\":0";
  CHECK_THAT(read(many + "}}}").vocabulary_problem, ContainsSubstring("more than 1,048,576 entries"));
}
