// BPE with "▁" against Hugging Face's tokenizers (tests/golden/tokenizer/make_metaspace_bpe.py) and by hand.
#include "bert_hpc/tokenize/metaspace_bpe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
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
  static const TokenizerGolden read("metaspace_bpe.json");
  return read;
}

std::unique_ptr<Tokenizer> tokenizer_of(const json& one) {
  return TokenizerGolden::tokenizer_of(one, metaspace_bpe_kind());
}

std::string problem_after(const std::function<void(json&)>& change) {
  return golden().problem_after(change);
}

/// A tokenizer of these tokens and merges without normalizer, tokens of bytes and template.
json plain_document(const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
  json document = golden().named("words")["tokenizer"];
  document["pre_tokenizer"]["prepend_scheme"] = "never";
  document["pre_tokenizer"]["split"] = false;
  document["post_processor"] = nullptr;
  document["added_tokens"] = json::array();
  json& model = document["model"];
  model["vocab"] = json::object();
  for (std::size_t id = 0; id < tokens.size(); ++id) model["vocab"][tokens[id]] = id;
  model["merges"] = merges;
  model["unk_token"] = tokens.front();
  return document;
}

Ids encoded(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encoder()->encode(text, ids);
  return ids;
}

/// Merges by the definition: of all pairs of neighbours, at each step the first of those of the lowest rank.
Ids merged(const json& model, const std::vector<std::string>& symbols) {
  std::vector<std::string> left = symbols;
  for (;;) {
    std::size_t best = model["merges"].size(), at = 0;
    for (std::size_t i = 0; i + 1 < left.size(); ++i) {
      for (std::size_t rank = 0; rank < best; ++rank) {
        if (model["merges"][rank] != left[i] + " " + left[i + 1]) continue;
        best = rank;
        at = i;
      }
    }
    if (best == model["merges"].size()) break;
    left[at] += left[at + 1];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  Ids ids;
  for (const std::string& token : left) ids.push_back(model["vocab"].value(token, 0));
  return ids;
}

}  // namespace

TEST_CASE("ids and offsets of BPE with ▁ equal those of tokenizers on hostile texts, in every form") {
  for (const json& one : golden().cases()) golden().check_texts(*tokenizer_of(one), one);
}

TEST_CASE("a written tokenizer.json of BPE with ▁ reads back to the same tokenizer") {
  golden().check_written(metaspace_bpe_kind());
}

TEST_CASE("templates and special tokens of BPE with ▁ are those of its files") {
  for (const json& one : golden().cases()) {
    INFO(one["name"]);
    const auto tokenizer = tokenizer_of(one);
    golden().check_sequences(*tokenizer, one, "the", "a");
    Ids words;
    const auto encoder = tokenizer->encoder();
    for (const char* word : {"the", "Don't", "12"}) encoder->encode(word, words);
    CHECK(words == one["words"].get<Ids>());
  }
  const auto gemma = tokenizer_of(golden().named("gemma"));
  CHECK(gemma->special_ids() == SpecialIds{.cls = 2, .sep = 1, .mask = 4, .pad = 0, .unk = 3});
  CHECK(tokenizer_of(golden().named("llama"))->special_ids().sep == -1);
}

TEST_CASE("parts of a text that share no token are merged as if the text were whole") {
  const std::vector<std::string> tokens = {"<unk>", "a", "b", "c", "▁", "ab", "aba", "▁a", "▁▁", "ba", "▁▁ab"};
  const json document = plain_document(tokens, {"b a", "a b", "ab a", "▁ a", "▁ ▁", "▁▁ ab"});
  const auto tokenizer = tokenizer_of({{"tokenizer", document}});
  // All texts of up to 6 of these characters, of which c is in no merge and é in no token.
  const std::vector<std::string> characters = {"a", "b", "c", "▁", "é"};
  for (int number = 0; number < 5 * 5 * 5 * 5 * 5 * 5; ++number) {
    std::vector<std::string> symbols;
    std::string text;
    for (int left = number; left > 0; left /= 5) {
      symbols.push_back(characters[static_cast<std::size_t>(left % 5)]);
      text += symbols.back();
      if (symbols.size() > 1 && symbols[symbols.size() - 2] == "é" && symbols.back() == "é") symbols.pop_back();
    }
    if (encoded(*tokenizer, text) != merged(document["model"], symbols)) {
      INFO(text);
      CHECK(encoded(*tokenizer, text) == merged(document["model"], symbols));
    }
  }
}

TEST_CASE("merges of tokens of bytes join across characters") {
  json document = plain_document({"<unk>", "a", "<0xC3>", "<0xA9>", "<0xA9><0xC3>"}, {"<0xA9> <0xC3>"});
  document["model"]["byte_fallback"] = true;
  document["model"]["fuse_unk"] = false;
  const auto tokenizer = tokenizer_of({{"tokenizer", document}});
  CHECK(encoded(*tokenizer, "éé") == Ids{2, 4, 3});
  CHECK(encoded(*tokenizer, "éaéx") == Ids{2, 3, 1, 2, 3, 0});
}

TEST_CASE("a merge with an empty token joins nothing") {
  const auto tokenizer = tokenizer_of({{"tokenizer", plain_document({"<unk>", "a", "", "aa"}, {"a ", " a", "a a"})}});
  CHECK(encoded(*tokenizer, "aaa") == Ids{3, 1});
}

TEST_CASE("BPE with ▁ encodes without allocating once its words are known") {
  const auto tokenizer = tokenizer_of(golden().named("gemma"));
  const auto encoder = tokenizer->encoder();
  const std::string text = "The 12 monkeys ate 1,234 bananas, e\xCC\x81 and pneumonoultramicroscopicsilicovolcano.";
  Ids ids;
  // The two buffers of the normalizer are swapped with each text.
  for (int i = 0; i < 2; ++i) encoder->encode(text, ids);
  ids.clear();
  const std::int64_t before = bert_hpc::test::allocations_so_far();
  encoder->encode(text, ids);
  CHECK(bert_hpc::test::allocations_so_far() == before);
}

TEST_CASE("all of tokenizer.json counts for BPE with ▁, whatever class tokenizer_config.json names") {
  const bert_hpc::test::TemporaryDirectory folder;
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder.path() + "/" + name, std::ios::binary) << text;
  };
  const json& one = golden().named("gemma");
  write("tokenizer.json", one["tokenizer"].dump());
  write("config.json", R"({"model_type": "modernbert"})");
  write("tokenizer_config.json",
        R"({"tokenizer_class": "GemmaTokenizerFast", "mask_token": "<mask>", "pad_token": "<pad>",
            "added_tokens_decoder": {"4": {"content": "<mask>", "special": true}}})");
  const TokenizerFolder read = read_tokenizer_folder(folder.path());
  REQUIRE(read.problems.empty());
  REQUIRE(read.kind == &metaspace_bpe_kind());
  golden().check_texts(*metaspace_bpe_kind().make(read.parts, "test"), one);
}

TEST_CASE("what a tokenizer.json of BPE with ▁ has that is not computed is named") {
  const auto has = [](const char* text) { return ContainsSubstring(text); };
  CHECK(problem_after([](json&) {}) == "no problem");
  CHECK_THAT(problem_after([](json& d) {
               d["normalizer"] = {{"type", "NFD"}};
             }),
             has("its normalizer is of type \"NFD\"; this version reads Lowercase, NFC, NFKD, Precompiled, Prepend, "
                 "Replace, Strip and StripAccents before BPE."));
  CHECK_THAT(problem_after([](json& d) {
               d["pre_tokenizer"] = {{"type", "Whitespace"}};
             }),
             has("its pre_tokenizer is of type \"Whitespace\"; this version reads Metaspace, alone or behind "
                 "WhitespaceSplit and Punctuation (Isolated), or a Split at \" \" with the behavior "
                 "MergedWithPrevious, or none, before BPE."));
  CHECK_THAT(problem_after([](json& d) {
               d["pre_tokenizer"] = golden().named("split")["tokenizer"]["pre_tokenizer"];
               d["pre_tokenizer"]["behavior"] = "Isolated";
             }),
             has("its pre_tokenizer is of type \"Split\""));
  CHECK_THAT(problem_after([](json& d) { d["model"]["dropout"] = 0.1; }), has("model.dropout is 0.1"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["continuing_subword_prefix"] = "##"; }),
             has("model.continuing_subword_prefix is \"##\""));
  CHECK_THAT(problem_after([](json& d) { d["model"]["end_of_word_suffix"] = "</w>"; }),
             has("model.end_of_word_suffix is \"</w>\""));
  CHECK_THAT(problem_after([](json& d) { d["model"]["unk_token"] = "none"; }),
             has("model.unk_token is \"none\", which the vocabulary lacks."));
  CHECK_THAT(problem_after([](json& d) { d["model"].erase("merges"); }), has("model.merges is missing"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["merges"][3] = "a b c"; }), has("no problem"));
  CHECK_THAT(problem_after([](json& d) { d["model"]["merges"][3] = 7; }), has("model.merges has the element 3"));
  CHECK_THAT(problem_after([](json& d) {
               d["post_processor"] = {{"type", "ByteLevel"}};
             }),
             has("its post_processor is of type \"ByteLevel\"; this version reads TemplateProcessing behind BPE."));
  json document = golden().cases()[0]["tokenizer"];
  document["model"]["merges"][3] = "a b c";
  CHECK_THROWS_WITH(tokenizer_of({{"tokenizer", document}}),
                    has("merge 4, \"a b c\", needs the token \"a\", which the vocabulary lacks."));
}
