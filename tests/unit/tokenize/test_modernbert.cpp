// Byte-level BPE of ModernBERT's shape against Hugging Face's tokenizers (tests/golden/tokenizer/make_modernbert.py):
// text in Unicode's normal form C, added tokens in it, special tokens and template of BERT.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/byte_bpe.hpp"
#include "support/counted_heap.hpp"
#include "support/temporary_directory.hpp"
#include "support/tokenizer_golden.hpp"

using namespace bert_hpc::tokenize;
using bert_hpc::test::TokenizerGolden;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using Ids = std::vector<std::int32_t>;

namespace {

const TokenizerGolden& modernbert() {
  static const TokenizerGolden read("modernbert.json");
  return read;
}

std::unique_ptr<Tokenizer> made_of(const json& document) {
  return TokenizerGolden::tokenizer_of({{"tokenizer", document}}, byte_bpe_kind());
}

/// The golden document with another normalizer.
json with_normalizer(const json& normalizer) {
  json document = modernbert().named("modernbert")["tokenizer"];
  document["normalizer"] = normalizer;
  return document;
}

std::string problem_of(const json& document) {
  const TokenizerFolder folder = read_tokenizer_file(bert_hpc::test::TemporaryFile(document.dump()).path());
  return folder.problems.empty() ? "" : folder.problems.front();
}

Ids ids_of_text(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encoder()->encode(text, ids);
  return ids;
}

std::string token_at(const Tokenizer& tokenizer, std::int32_t id) {
  return id < 0 ? "" : tokenizer.tokens().at(static_cast<std::size_t>(id));
}

void check_roles(const Tokenizer& tokenizer) {
  const SpecialIds& ids = tokenizer.special_ids();
  CHECK(token_at(tokenizer, ids.cls) == "[CLS]");
  CHECK(token_at(tokenizer, ids.sep) == "[SEP]");
  CHECK(token_at(tokenizer, ids.pad) == "[PAD]");
  CHECK(token_at(tokenizer, ids.mask) == "[MASK]");
  CHECK(token_at(tokenizer, ids.unk) == "[UNK]");
  CHECK(tokenizer.text_end() == ids.sep);
}

}  // namespace

TEST_CASE("ids and offsets of ModernBERT's shape equal those of tokenizers on hostile texts") {
  for (const json& one : modernbert().cases()) modernbert().check_texts(*made_of(one["tokenizer"]), one);
}

TEST_CASE("a tokenizer of ModernBERT's shape reads back from the file that is written") {
  for (const json& one : modernbert().cases()) {
    const auto tokenizer = made_of(one["tokenizer"]);
    const json written = json::parse(tokenizer->spec().text);
    CHECK(written["normalizer"] == one["tokenizer"]["normalizer"]);
    CHECK(written["added_tokens"] == one["tokenizer"]["added_tokens"]);
    const auto again = made_of(written);
    modernbert().check_texts(*again, one);
    CHECK(again->spec().text == tokenizer->spec().text);
    CHECK(again->spec().hash == tokenizer->spec().hash);
    CHECK(again->vocabulary_hash() == tokenizer->vocabulary_hash());
  }
}

TEST_CASE("texts and pairs of ModernBERT's shape have BERT's special tokens, and the second text the type 1") {
  for (const json& one : modernbert().cases()) {
    const auto tokenizer = made_of(one["tokenizer"]);
    modernbert().check_sequences(*tokenizer, one, "the", "e\u0301");
    CHECK(one["types"].back() == 1);
    CHECK(tokenizer->sequence().second_type == 1);
    CHECK(tokenizer->sequence().second_between == 0);
    CHECK(describe(tokenizer->sequence(), true) == "[CLS] a [SEP] b [SEP]");
    Ids words;
    const auto encoder = tokenizer->encoder();
    for (const char* word : {"the", "e\u0301", "\u0301", "Don't", "12"}) encoder->encode(word, words);
    CHECK(words == one["words"].get<Ids>());
  }
}

TEST_CASE("roles of special tokens come from the file alone, or from special_tokens_map.json") {
  const json& document = modernbert().named("modernbert")["tokenizer"];
  check_roles(*made_of(document));
  const bert_hpc::test::TemporaryDirectory folder;
  std::ofstream(folder / "tokenizer.json") << document;
  std::ofstream(folder / "special_tokens_map.json")
      << json{{"mask_token", {{"content", "[unused1]"}, {"lstrip", true}}}, {"pad_token", "<|padding|>"}};
  const auto named = [&] {
    const TokenizerFolder read = read_tokenizer_folder(folder.path());
    REQUIRE(read.problems.empty());
    return byte_bpe_kind().make(read.parts, "test");
  };
  CHECK(token_at(*named(), named()->special_ids().mask) == "[unused1]");
  CHECK(token_at(*named(), named()->special_ids().pad) == "<|padding|>");
  // As Transformers, which reads it for older folders alone.
  std::ofstream(folder / "tokenizer_config.json")
      << json{{"added_tokens_decoder", json::object()}, {"pad_token", "[PAD]"}};
  check_roles(*named());
}

TEST_CASE("the folder of a tokenizer that normalizes has no file that cannot say so") {
  const auto tokenizer = made_of(modernbert().named("modernbert")["tokenizer"]);
  const bert_hpc::test::TemporaryDirectory folder;
  std::vector<std::string> names;
  for (const Tokenizer::File& file : tokenizer->files(512)) {
    names.push_back(file.name);
    std::ofstream(folder / file.name) << file.text;
  }
  CHECK(names == std::vector<std::string>{"tokenizer_config.json", "tokenizer.json"});
  const TokenizerFolder read = read_tokenizer_folder(folder.path());
  CHECK(read.problems.empty());
  const auto again = byte_bpe_kind().make(read.parts, "test");
  check_roles(*again);
  CHECK(again->spec().text == tokenizer->spec().text);
}

TEST_CASE("NFC is the normalizer that byte-level BPE may have, and others are named") {
  const json nfc = {{"type", "NFC"}};
  const auto sequence = [](const json& elements) { return json{{"type", "Sequence"}, {"normalizers", elements}}; };
  const auto plain = made_of(with_normalizer(nullptr)), whole = made_of(with_normalizer(nfc));
  CHECK(ids_of_text(*plain, "e\u0301") != ids_of_text(*plain, "\u00e9"));
  CHECK(ids_of_text(*whole, "e\u0301") == ids_of_text(*plain, "\u00e9"));
  CHECK(plain->spec().hash != whole->spec().hash);
  CHECK(made_of(with_normalizer(sequence({nfc, nfc})))->spec().text == whole->spec().text);
  CHECK(made_of(with_normalizer(sequence(json::array())))->spec().text == plain->spec().text);
  for (const char* name : {"NFD", "NFKC", "NFKD", "Lowercase"}) {
    const std::string expected = std::string("its normalizer is of type \"") + name + "\"; this version reads";
    CHECK_THAT(problem_of(with_normalizer({{"type", name}})), ContainsSubstring(expected));
    CHECK_THAT(problem_of(with_normalizer(sequence({nfc, {{"type", name}}}))), ContainsSubstring(expected));
  }
}

TEST_CASE("composing allocates no memory where the caller's vectors have room") {
  const auto tokenizer = made_of(modernbert().named("modernbert")["tokenizer"]);
  const auto encoder = tokenizer->encoder();
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += "the cafe\u0301   \u1112\u1161\u11ab a\u0301\u0316 [MASK] " + std::to_string(i);
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
