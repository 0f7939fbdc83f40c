// WordPiece with MPNet's special tokens against Transformers' MPNetTokenizer (tests/golden/tokenizer/make_mpnet.py).
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"
#include "support/temporary_directory.hpp"
#include "support/temporary_file.hpp"
#include "support/tokenizer_golden.hpp"

using namespace bert_hpc::tokenize;
using bert_hpc::test::TokenizerGolden;
using bert_hpc::test::write_bytes;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

const TokenizerGolden& golden() {
  static const TokenizerGolden read("mpnet.json");
  return read;
}

}  // namespace

TEST_CASE("ids and offsets equal those of MPNetTokenizer") {
  for (const json& one : golden().cases()) {
    const auto tokenizer = golden().tokenizer_of(one, wordpiece_kind());
    golden().check_texts(*tokenizer, one);
    golden().check_sequences(*tokenizer, one, "cat", "mat");
  }
}

TEST_CASE("the tokenizer.json of MPNet is that which Transformers saves, and reads back to the same tokenizer") {
  for (const json& one : golden().cases()) {
    const auto tokenizer = golden().tokenizer_of(one, wordpiece_kind());
    json expected = one["tokenizer"];
    expected["normalizer"]["strip_accents"] = expected["normalizer"]["lowercase"];  // null: as the case
    json again = one;
    again["tokenizer"] = json::parse(tokenizer->spec().text);
    CHECK(again["tokenizer"] == expected);
    CHECK(golden().tokenizer_of(again, wordpiece_kind())->spec().text == tokenizer->spec().text);
  }
}

TEST_CASE("the template of older files, whose second text has another token type, makes the same sequences") {
  const json& one = golden().cases()[0];
  json older = one;
  const auto token = [](const char* id, int type) { return json{{"SpecialToken", {{"id", id}, {"type_id", type}}}}; };
  const auto text = [](const char* id, int type) { return json{{"Sequence", {{"id", id}, {"type_id", type}}}}; };
  const auto special = [](const char* id, int number) { return json{{"id", id}, {"ids", {number}}, {"tokens", {id}}}; };
  older["tokenizer"]["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {token("<s>", 0), text("A", 0), token("</s>", 0)}},
      {"pair", {token("<s>", 0), text("A", 0), token("</s>", 0), token("</s>", 0), text("B", 1), token("</s>", 1)}},
      {"special_tokens", {{"<s>", special("<s>", 0)}, {"</s>", special("</s>", 2)}}}};
  CHECK(golden().tokenizer_of(older, wordpiece_kind())->spec().text ==
        golden().tokenizer_of(one, wordpiece_kind())->spec().text);
}

TEST_CASE("a folder of MPNet without tokenizer.json is known by its class, its tokens or its model") {
  const json& one = golden().cases()[0];
  const std::string expected = golden().tokenizer_of(one, wordpiece_kind())->spec().text;
  for (const auto& [file, text] : {std::pair("tokenizer_config.json", R"({"tokenizer_class": "MPNetTokenizer"})"),
                                   std::pair("tokenizer_config.json", R"({"cls_token": "<s>", "sep_token": "</s>"})"),
                                   std::pair("config.json", R"({"model_type": "mpnet"})")}) {
    CAPTURE(text);
    const bert_hpc::test::TemporaryDirectory folder;
    write_bytes(folder / "vocab.txt", golden().lines_of(one["vocabulary"]));
    write_bytes(folder / file, text);
    const TokenizerFolder read = read_tokenizer_folder(folder.path());
    REQUIRE(read.problems.empty());
    CHECK(read.kind->make(read.parts, "x")->spec().text == expected);
  }
}

TEST_CASE("the folder that is written reads back, and names MPNet's class and tokens") {
  const json& one = golden().cases()[1];
  const auto tokenizer = golden().tokenizer_of(one, wordpiece_kind());
  const bert_hpc::test::TemporaryDirectory folder;
  for (const Tokenizer::File& file : tokenizer->files(512)) write_bytes(folder / file.name, file.text);
  std::ifstream stream(folder / "tokenizer_config.json");
  const json config = json::parse(stream);
  for (const char* key : {"tokenizer_class", "bos_token", "cls_token", "eos_token", "mask_token", "pad_token",
                          "sep_token", "unk_token", "do_lower_case"}) {
    INFO(key);
    CHECK(config[key] == one["config"][key]);
  }
  const TokenizerFolder read = read_tokenizer_folder(folder.path());
  REQUIRE(read.problems.empty());
  CHECK(read.conflict.empty());
  CHECK(read.kind->make(read.parts, "x")->spec().hash == tokenizer->spec().hash);
}

TEST_CASE("a vocabulary without MPNet's tokens is refused by the names of those it lacks") {
  try {
    wordpiece_kind().make({.vocabulary = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>"}, .sections = "mpnet"},
                          "x");
    FAIL("no error");
  } catch (const bert_hpc::core::Error& error) {
    CHECK(std::string(error.what()) ==
          "x: the vocabulary lacks <pad>, </s>, <mask>; that of MPNetTokenizer has <pad>, [UNK], <s>, </s> and "
          "<mask>.");
  }
}
