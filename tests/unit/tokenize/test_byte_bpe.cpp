// Byte-level BPE against Hugging Face's tokenizers (tests/golden/tokenizer/make_byte_bpe.py) and by hand.
#include "bert_hpc/tokenize/byte_bpe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
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
  static const TokenizerGolden read("byte_bpe.json");
  return read;
}

TokenizerParts parts_of(const json& one) {
  return TokenizerGolden::parts_of(one, byte_bpe_kind());
}

std::unique_ptr<Tokenizer> tokenizer_of(const json& one) {
  return TokenizerGolden::tokenizer_of(one, byte_bpe_kind());
}

}  // namespace

TEST_CASE("ids and offsets of byte-level BPE equal those of tokenizers on hostile texts, in every form") {
  for (const json& one : golden().cases()) golden().check_texts(*tokenizer_of(one), one);
}

TEST_CASE("a written tokenizer.json reads back to the same tokenizer") {
  golden().check_written(byte_bpe_kind());
}

TEST_CASE("templates put the special tokens of RoBERTa, GPT-2 and others around texts and pairs") {
  for (const json& one : golden().cases()) {
    INFO(one["name"]);
    const auto tokenizer = tokenizer_of(one);
    golden().check_sequences(*tokenizer, one, "the", "a");
  }
  const auto roberta = tokenizer_of(golden().named("roberta"));
  CHECK(describe(roberta->sequence(), true) == "[CLS] a [SEP] [SEP] b [SEP]");
  CHECK(roberta->special_ids() == SpecialIds{.cls = 0, .sep = 2, .mask = 4, .pad = 1, .unk = 3});
  CHECK(roberta->sequence().second_type == 0);
  const auto gpt2 = tokenizer_of(golden().named("gpt2"));
  CHECK(gpt2->sequence().special_tokens(true) == 0);
  CHECK(gpt2->special_ids() == SpecialIds{.unk = 0});
}

TEST_CASE("words given one by one have the ids of is_split_into_words") {
  for (const json& one : golden().cases()) {
    INFO(one["name"]);
    Ids ids;
    const auto tokenizer = tokenizer_of(one);
    const auto encoder = tokenizer->encoder();
    for (const char* word : {"the", "Don't", "12"}) encoder->encode(word, ids);
    CHECK(ids == one["words"].get<Ids>());
  }
}

TEST_CASE("older files, vocab.json with merges.txt, make the tokenizer that their special tokens tell") {
  for (const auto& [name, type] : {std::pair("roberta", "RobertaProcessing"), std::pair("gpt2", "ByteLevel")}) {
    INFO(name);
    const auto whole = tokenizer_of(golden().named(name));
    const bert_hpc::test::TemporaryDirectory folder;
    for (const Tokenizer::File& file : whole->files(128)) {
      if (file.name == "vocab.json" || file.name == "merges.txt") std::ofstream(folder / file.name) << file.text;
    }
    const TokenizerFolder read = read_tokenizer_folder(folder.path());
    REQUIRE(read.kind == &byte_bpe_kind());
    CHECK(read.problems.empty());
    CHECK(read.file == "vocab.json");
    const auto tokenizer = byte_bpe_kind().make(read.parts, "test");
    CHECK(json::parse(tokenizer->spec().text)["post_processor"]["type"] == type);
    Ids ids, expected;
    tokenizer->encoder()->encode("Don't count 12 <mask> <|endoftext|>", ids);
    whole->encoder()->encode("Don't count 12 <mask> <|endoftext|>", expected);
    CHECK(ids == expected);
    // The file that is missing can be made.
    const auto lacking = lacking_tokenizer_files(folder.path());
    REQUIRE(lacking.size() == 1);
    CHECK(lacking[0].first == "tokenizer.json");
    std::filesystem::remove(folder / "merges.txt");
    CHECK_THROWS_WITH(read_tokenizer_folder(folder.path()), ContainsSubstring("merges.txt: is missing"));
  }
}

namespace {

/// What is wrong with RoBERTa's golden file after `change`: its problems, or why no tokenizer is made of it.
std::string problem_after(const std::function<void(json&)>& change) {
  json document = golden().named("roberta")["tokenizer"];
  change(document);
  const TokenizerFolder folder = read_tokenizer_file(bert_hpc::test::TemporaryFile(document.dump()).path());
  if (!folder.problems.empty()) return folder.problems.front();
  try {
    byte_bpe_kind().make(folder.parts, "test");
    return "";
  } catch (const bert_hpc::core::Error& error) {
    CHECK(error.code() == bert_hpc::core::ExitCode::data);
    return error.what();
  }
}

}  // namespace

TEST_CASE("components of tokenizer.json that are not computed are named") {
  CHECK(problem_after([](json&) {}).empty());
  const auto has = [](const std::string& text) { return ContainsSubstring(text); };
  CHECK_THAT(problem_after([](json& d) { d["normalizer"] = {{"type", "NFD"}}; }), has("normalizer is of type \"NFD\""));
  CHECK_THAT(problem_after([](json& d) {
               d["pre_tokenizer"] = {{"type", "Whitespace"}};
             }),
             has("pre_tokenizer is of type \"Whitespace\""));
  CHECK_THAT(problem_after([](json& d) { d["pre_tokenizer"] = nullptr; }), has("pre_tokenizer is missing"));
  CHECK_THAT(problem_after([](json& d) {
               const json digits = {{"type", "Digits"}, {"individual_digits", true}};
               d["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {digits, d["pre_tokenizer"]}}};
             }),
             has("\"Digits\""));
  CHECK_THAT(problem_after([](json& d) {
               d["post_processor"] = {{"type", "BertProcessing"}};
             }),
             has("post_processor is of type \"BertProcessing\""));
  CHECK_THAT(problem_after([](json& d) {
               d["post_processor"]["sep"] = {"</s>", 5};
             }),
             has("gives the token \"</s>\" the id 5, and the vocabulary 2"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["dropout"] = 0.1; }), has("model.dropout is 0.1"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["end_of_word_suffix"] = "</w>"; }), has("end_of_word_suffix"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["type"] = "WordLevel"; }), has("holds a WordLevel tokenizer"));
}

TEST_CASE("a vocabulary that lacks merges, bytes, or tokens of its merges is refused") {
  const auto has = [](const std::string& text) { return ContainsSubstring(text); };
  CHECK_THAT(problem_after([](json& d) { d["model"].erase("merges"); }), has("model.merges is missing"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["merges"] = json::array(); }), has("there are no merges"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["merges"][3] = 7; }), has("the element 3"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["merges"][3] = {"a", "b c"}; }), has("the element 3"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["merges"][3] = "zq zq"; }),
             has("merge 4, \"zq zq\", needs the token"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["vocab"]["the"] = 9999; }), has("the id 9999"));
  CHECK_THAT(problem_after([](json& d) {
               const json id = d["model"]["vocab"]["!"];
               d["model"]["vocab"].erase("!");
               d["model"]["vocab"]["zzz"] = id;
             }),
             has("lacks 1 of the 256 bytes, the first one being 33"));
}

TEST_CASE("training gives the vocabulary and the merges of BpeTrainer, and the tokenizer of RoBERTa") {
  const json& training = golden().file()["training"];
  ByteBpeTrainer trainer({}, false);
  WordCounts counts;
  for (const json& line : training["text"]) trainer.count(line.get<std::string>(), counts);
  const TrainedVocabulary trained = trainer.train(counts.sorted(), training["size"]);
  CHECK(trained.vocabulary == training["vocabulary"].get<std::vector<std::string>>());
  std::vector<std::string> merges;
  for (const json& merge : training["merges"])
    merges.push_back(merge[0].get<std::string>() + ' ' + merge[1].get<std::string>());
  CHECK(trained.merges == merges);
  const auto tokenizer = byte_bpe_kind().make({.vocabulary = trained.vocabulary, .merges = trained.merges}, "test");
  CHECK(tokenizer->sequence() == byte_bpe_kind().sequence);
  CHECK(tokenizer->special_ids() == SpecialIds{.cls = 0, .sep = 2, .mask = 4, .pad = 1, .unk = 3});
  CHECK_THROWS_WITH(trainer.train(counts.sorted(), 200), ContainsSubstring("261 special tokens and bytes"));
  CHECK_THROWS_WITH(trainer.train({}, 400), ContainsSubstring("no words"));
}

TEST_CASE("training for texts that end in a token gives the tokenizer of GPT-2") {
  const json& training = golden().file()["training"];
  ByteBpeTrainer trainer({}, true);
  WordCounts counts;
  for (const json& line : training["text"]) trainer.count(line.get<std::string>(), counts);
  const TrainedVocabulary trained = trainer.train(counts.sorted(), 300);
  CHECK(trained.vocabulary.front() == "<|endoftext|>");
  CHECK(trained.vocabulary.size() == 300);
  const auto tokenizer = byte_bpe_kind().make(
      {.vocabulary = trained.vocabulary, .merges = trained.merges, .sections = trained.sections}, "test");
  CHECK(tokenizer->sequence().special_tokens(false) == 0);
  CHECK(tokenizer->special_ids() == SpecialIds{.unk = 0});
  CHECK(tokenizer->text_end() == 0);
  Ids ids;
  tokenizer->encoder()->encode("a<|endoftext|>", ids);
  CHECK(ids == Ids{ids.front(), 0});
}

TEST_CASE("the token that ends a text is eos_token, that of the template, or GPT-2's") {
  CHECK(tokenizer_of(golden().named("roberta"))->text_end() == 2);
  TokenizerParts parts = parts_of(golden().named("gpt2"));
  const auto of_gpt2 = byte_bpe_kind().make(parts, "test");
  CHECK(of_gpt2->tokens()[static_cast<std::size_t>(of_gpt2->text_end())] == "<|endoftext|>");
  parts.special_tokens["eos"] = "!";
  const auto other = byte_bpe_kind().make(parts, "test");
  CHECK(other->tokens()[static_cast<std::size_t>(other->text_end())] == "!");
}

TEST_CASE("tokens of numbered words are the tokens of the text in byte-level BPE") {
  for (const bool prefix : {false, true}) {
    TokenizerParts parts = parts_of(golden().named("roberta"));
    parts.settings[byte_bpe_kind().keys[0].name] = prefix;
    parts.added.clear();
    parts.sections = "";
    const auto tokenizer = byte_bpe_kind().make(parts, "test");
    const auto encoder = tokenizer->encoder();
    ByteBpeTrainer trainer(parts.settings, false);
    WordNumbers words;
    for (const json& hex : golden().file()["texts"]) {
      const std::string text = TokenizerGolden::text_from_hex(hex) + "\xFF \xC3";
      Ids numbers, ids, expected;
      encoder->encode(text, expected);
      trainer.read(text, words, numbers);
      for (const std::int32_t number : numbers) {
        if (number < WordNumbers::first_word) {
          ids.push_back(tokenizer->special_ids().*special_roles[static_cast<std::size_t>(number)].id);
        } else {
          encoder->encode_word(words.word(number), ids);
        }
      }
      INFO(hex << ' ' << prefix);
      CHECK(ids == expected);
    }
  }
}

TEST_CASE("switches that an input may choose do not change the hash of a specification") {
  TokenizerParts parts = parts_of(golden().named("roberta"));
  const std::string hash = byte_bpe_kind().make(parts, "test")->spec().hash;
  parts.settings = {{"add_prefix_space", true}, {"trim_offsets", false}};
  CHECK(byte_bpe_kind().make(parts, "test")->spec().hash == hash);
  CHECK(tokenizer_of(golden().named("gpt2"))->spec().hash != hash);
}

TEST_CASE("byte-level BPE allocates no memory where the caller's vectors have room") {
  const auto tokenizer = tokenizer_of(golden().named("roberta with a prefix"));
  const auto encoder = tokenizer->encoder();
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += "the caf\u00e9 unknown \u4e2d <mask> " + std::string(300, 'a') + std::to_string(i);
  Ids ids;
  std::vector<TokenSpan> spans;
  encoder->encode(text, ids);  // its own memory grows to that of the text
  ids.clear();
  ids.reserve(1000000);
  spans.reserve(1000000);
  const std::int64_t before = bert_hpc::test::allocations_so_far();
  encoder->encode(text, ids);
  encoder->encode_with_spans(text, ids, spans);
  CHECK(bert_hpc::test::allocations_so_far() == before);
  CHECK(ids.size() == 2 * spans.size());
}
