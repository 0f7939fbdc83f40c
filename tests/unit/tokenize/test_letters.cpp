// Letters against Transformers' EsmTokenizer and Hugging Face's tokenizers (tests/golden/tokenizer/make_letters.py),
// folders of ESM, and vocabularies of letters from text.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"
#include "bert_hpc/tokenize/vocabulary_trainer.hpp"
#include "support/temporary_directory.hpp"
#include "support/temporary_file.hpp"
#include "support/tokenizer_golden.hpp"

using namespace bert_hpc::tokenize;
using bert_hpc::test::TokenizerGolden;
using bert_hpc::test::write_bytes;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using Ids = std::vector<std::int32_t>;

namespace {

const TokenizerGolden& golden() {
  static const TokenizerGolden read("letters.json");
  return read;
}

const TokenizerKind& letters() {
  return *find_tokenizer_kind("letters");
}

std::string problem_after(const std::function<void(json&)>& change) {
  return golden().problem_after(change);
}

std::string refusal_of(std::vector<std::string> vocabulary) {
  try {
    letters().make({.vocabulary = std::move(vocabulary)}, "x");
  } catch (const bert_hpc::core::Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("ids and offsets of letters equal those of EsmTokenizer and tokenizers on hostile texts") {
  for (const json& one : golden().cases()) {
    const auto tokenizer = golden().tokenizer_of(one, letters());
    golden().check_texts(*tokenizer, one);
    golden().check_sequences(*tokenizer, one, "AC", "C");
  }
}

TEST_CASE("a written tokenizer.json of letters is that of tokenizers, and reads back to the same tokenizer") {
  for (const json& one : golden().cases()) {
    const auto tokenizer = golden().tokenizer_of(one, letters());
    json again = one;
    again["tokenizer"] = json::parse(tokenizer->spec().text);
    for (const char* const section : {"normalizer", "pre_tokenizer", "model", "added_tokens"}) {
      INFO(section);
      CHECK(again["tokenizer"][section] == one["tokenizer"][section]);
    }
    const auto read = golden().tokenizer_of(again, letters());
    CHECK(read->spec().text == tokenizer->spec().text);
    CHECK(read->vocabulary_hash() == tokenizer->vocabulary_hash());
  }
}

TEST_CASE("a folder of ESM is recognized by its class or its model, and gives the same tokenizer") {
  const json& one = golden().cases()[0];
  const std::string expected = golden().tokenizer_of(one, letters())->spec().text;
  for (const bool named : {true, false}) {
    const bert_hpc::test::TemporaryDirectory folder;
    write_bytes(folder.path() + "/vocab.txt", golden().lines_of(one["vocabulary"]));
    if (named) write_bytes(folder.path() + "/tokenizer_config.json", R"({"tokenizer_class": "EsmTokenizer"})");
    if (!named) write_bytes(folder.path() + "/config.json", R"({"model_type": "esm"})");
    const TokenizerFolder read = read_tokenizer_folder(folder.path());
    REQUIRE(read.kind == &letters());
    CHECK(read.problems.empty());
    const auto tokenizer = letters().make(read.parts, "x");
    CHECK(tokenizer->spec().text == expected);
    // All its files in one folder are one tokenizer.
    for (const Tokenizer::File& file : tokenizer->files(1026)) write_bytes(folder.path() + "/" + file.name, file.text);
    const TokenizerFolder whole = read_tokenizer_folder(folder.path());
    CHECK(whole.problems.empty());
    CHECK(whole.spec_hash() == tokenizer->spec().hash);
  }
  const bert_hpc::test::TemporaryDirectory other;
  write_bytes(other.path() + "/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
  CHECK(read_tokenizer_folder(other.path()).kind->name == std::string("wordpiece"));
}

TEST_CASE("vocabularies that make no letters tokenizer are refused by name") {
  CHECK_THAT(refusal_of({"<cls>", "<eos>", "A"}), ContainsSubstring("lacks \"<unk>\""));
  CHECK_THAT(refusal_of({"<cls>", "<unk>", "A"}), ContainsSubstring("post_processor has the token \"<eos>\""));
  CHECK_THAT(refusal_of({"<cls>", "<eos>", "<unk>", "A", "B", "A"}),
             ContainsSubstring("token 3, \"A\", is there twice"));
  CHECK_THAT(refusal_of({"<cls>", "<eos>", "<unk>", "A B"}), ContainsSubstring("has a blank"));
  CHECK_THAT(refusal_of({"<cls>", "<eos>", "<unk>", ""}), ContainsSubstring("is empty"));
  CHECK_THAT(refusal_of({"<cls>", "<eos>", "<unk>", "\xFF"}), ContainsSubstring("is not UTF-8"));
}

TEST_CASE("WordLevel tokenizers of other forms are refused by name") {
  CHECK(problem_after([](json&) {}) == "no problem");
  CHECK_THAT(problem_after([](json& of) {
               of["pre_tokenizer"] = {{"type", "Whitespace"}};
             }),
             ContainsSubstring("holds a WordLevel tokenizer whose pre_tokenizer is of type \"Whitespace\""));
  CHECK_THAT(problem_after([](json& of) { of["pre_tokenizer"]["pretokenizers"][1]["pattern"]["Regex"] = "L|A"; }),
             ContainsSubstring("around each token of the vocabulary"));
  CHECK_THAT(problem_after([](json& of) {
               of["normalizer"] = {{"type", "Lowercase"}};
             }),
             ContainsSubstring("whose normalizer is not null"));
  CHECK_THAT(problem_after([](json& of) { of["post_processor"] = nullptr; }), !ContainsSubstring("no problem"));
}

TEST_CASE("a vocabulary of letters has those of the text, the most frequent first, between ESM's special tokens") {
  const auto trainer = letters().trainer({}, false);
  WordCounts counts;
  for (const char* const text : {"GATTACA", "GA <mask>TC\n", "é", "\xFF"}) trainer->count(text, counts);
  const auto trained = trainer->train(counts.sorted(), 100);
  CHECK(trained.vocabulary ==
        std::vector<std::string>{"<cls>", "<pad>", "<eos>", "<unk>", "A", "T", "C", "G", "é", "\uFFFD", "<mask>"});
  const auto fewer = trainer->train(counts.sorted(), 7);
  CHECK(fewer.vocabulary == std::vector<std::string>{"<cls>", "<pad>", "<eos>", "<unk>", "A", "T", "<mask>"});
  const auto tokenizer = letters().make({.vocabulary = fewer.vocabulary}, "x");
  CHECK(golden().sequence_of(*tokenizer, "GAT<mask>A") == Ids{0, 3, 4, 5, 6, 4, 2});
  CHECK(tokenizer->special_ids() == SpecialIds{.cls = 0, .sep = 2, .mask = 6, .pad = 1, .unk = 3});
  CHECK_THROWS_AS(trainer->train(counts.sorted(), 5), bert_hpc::core::Error);
  CHECK_THROWS_AS(trainer->train({}, 100), bert_hpc::core::Error);
}
