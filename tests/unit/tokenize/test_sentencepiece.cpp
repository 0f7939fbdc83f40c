// Folders with a SentencePiece model against Transformers (tests/golden/tokenizer/make_sentencepiece.py), and files
// that are not read.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bert_hpc/tokenize/tokenizer_folder.hpp"
#include "bert_hpc/tokenize/unigram.hpp"
#include "support/temporary_directory.hpp"
#include "support/tokenizer_golden.hpp"

using namespace bert_hpc::tokenize;
using bert_hpc::test::TokenizerGolden;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

const TokenizerGolden& golden() {
  static const TokenizerGolden read("sentencepiece.json");
  return read;
}

/// A folder of one case.
class GivenFolder {
 public:
  explicit GivenFolder(const json& one) {
    write(one["file"], TokenizerGolden::text_from_hex(one["model"]));
    for (const auto& [name, content] : one["files"].items()) write(name, content.dump());
  }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(scratch_ / name, std::ios::binary) << content;
  }
  std::string path() const { return scratch_.path(); }
  TokenizerFolder read() const { return read_tokenizer_folder(path()); }
  /// The only problem, without the folder.
  std::string problem() const {
    const TokenizerFolder folder = read();
    CHECK_FALSE(folder.has_vocabulary());
    REQUIRE(folder.problems.size() == 1);
    REQUIRE(folder.problems[0].starts_with(path() + "/"));
    return folder.problems[0].substr(path().size() + 1);
  }

 private:
  bert_hpc::test::TemporaryDirectory scratch_;
};

}  // namespace

TEST_CASE("a SentencePiece model is the tokenizer that Transformers converts it to") {
  for (const json& one : golden().cases()) {
    INFO(one["name"]);
    const GivenFolder given(one);
    const TokenizerFolder folder = given.read();
    INFO((folder.problems.empty() ? "" : folder.problems.front()));
    REQUIRE(folder.problems.empty());
    REQUIRE(folder.kind == &unigram_kind());
    CHECK(folder.file == one["file"]);
    CHECK(folder.conflict.empty());
    const auto tokenizer = unigram_kind().make(folder.parts, "test");
    golden().check_texts(*tokenizer, one);
    golden().check_sequences(*tokenizer, one, "the", "a");
    const SpecialIds& special = tokenizer->special_ids();
    for (const SpecialRole& role : special_roles) CHECK(special.*role.id == one["roles"][role.name]);
    CHECK(tokenizer->text_end() == special.sep);
    CHECK(tokenizer->sequence().second_type == (one["file"] == "spm.model" ? 1 : 0));
  }
}

TEST_CASE("a SentencePiece model and the tokenizer.json made of it are one tokenizer") {
  for (const json& one : golden().cases()) {
    INFO(one["name"]);
    const GivenFolder given(one);
    const auto converted = unigram_kind().make(given.read().parts, "test");
    const auto saved = TokenizerGolden::tokenizer_of(one, unigram_kind());
    golden().check_texts(*saved, one);
    CHECK(converted->spec().text == saved->spec().text);
    CHECK(converted->spec().hash == saved->spec().hash);
    CHECK(converted->vocabulary_hash() == saved->vocabulary_hash());
    // The file that the folder lacks is made, and counts from then on.
    const auto lacking = lacking_tokenizer_files(given.path());
    REQUIRE(lacking.size() == 1);
    CHECK(lacking[0].first == "tokenizer.json");
    given.write(lacking[0].first, lacking[0].second);
    const TokenizerFolder again = given.read();
    CHECK(again.file == "tokenizer.json");
    CHECK(again.problems.empty());
    CHECK(again.spec_hash() == saved->spec().hash);
    given.write(one["file"], "");
    CHECK(given.read().spec_hash() == saved->spec().hash);
  }
}

TEST_CASE("files that are no SentencePiece model of Unigram are named") {
  const json& one = golden().named("xlm-roberta");
  const GivenFolder given(one);
  const std::string name = "sentencepiece.bpe.model", model = TokenizerGolden::text_from_hex(one["model"]);
  const auto problem_of = [&](const std::string& content) {
    given.write(name, content);
    return given.problem();
  };
  const std::string damaged = name + ": is no SentencePiece model, or only a part of one.";
  CHECK(problem_of("") == name + ": is no SentencePiece model: it has no pieces.");
  CHECK(problem_of("version https://git-lfs.github.com/spec/v1\n") == damaged);
  CHECK(problem_of("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01") == damaged);  // no number is that long
  CHECK(problem_of(std::string("\x00\x00", 2)) == damaged);                          // a field 0
  CHECK(problem_of("\x0A\x7F\x0A") == damaged);
  int whole = 0;  // prefixes that end between two fields
  for (std::size_t size = 1; size < model.size(); ++size) {
    given.write(name, model.substr(0, size));
    const TokenizerFolder folder = given.read();
    whole += folder.has_vocabulary() ? 1 : 0;
    CHECK((folder.has_vocabulary() || folder.problems.at(0).ends_with("it has no pieces.") ||
           folder.problems.at(0).ends_with(damaged)));
  }
  CHECK(whole < 110);
  const auto piece = [](const std::string& text) {
    return "\x0A" + std::string(1, static_cast<char>(text.size() + 2)) + "\x0A" +
           std::string(1, static_cast<char>(text.size())) + text;
  };
  const std::string begin = piece("<unk>") + piece("<s>") + piece("</s>");
  CHECK(problem_of(begin + piece("a\xC3")) == name + ": has the piece 3, which is not UTF-8.");
  CHECK(problem_of(begin + piece("a") + piece("a")) == name + ": has the piece \"a\" twice.");
  CHECK(problem_of(begin + piece("<mask>")) == name + ": has the piece \"<mask>\" twice.");
  CHECK_THAT(problem_of(begin + piece("")), ContainsSubstring("is empty"));
  CHECK_THAT(problem_of(begin + "\x0A\x08\x0A\x01" + "a" + "\x15" + std::string("\x00\x00\xC0\x7F", 4)),
             ContainsSubstring("has the element 4, which is no piece with its score"));
  CHECK_THAT(problem_of(begin + std::string("\x1A\x06\x12\x04\x00\x00\x00\x00", 8)),
             ContainsSubstring("precompiled_charsmap is damaged"));
  CHECK(problem_of(begin + "\x12\x02\x18\x02") ==
        name + ": holds a BPE model; this version reads Unigram models of SentencePiece.");
  given.write(name, begin + piece("a") + "\x12\x02\x18\x09");  // an algorithm that protobuf does not know
  CHECK(given.read().problems.empty());
}

TEST_CASE("the class of a SentencePiece model must be one that decides on ids as this version does") {
  const json& one = golden().named("xlm-roberta");
  const GivenFolder given(one);
  given.write("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer"})");
  CHECK_THAT(given.problem(),
             ContainsSubstring("belongs to the class \"T5Tokenizer\" of tokenizer_config.json; this version reads "
                               "SentencePiece models of XLMRobertaTokenizer, CamembertTokenizer and "
                               "DebertaV2Tokenizer. In Python"));
  given.write("tokenizer_config.json", "{}");
  CHECK_THAT(given.problem(), ContainsSubstring("belongs to a tokenizer whose class no tokenizer_config.json names"));
  given.write("config.json", R"({"model_type": "llama"})");
  CHECK_THAT(given.problem(), ContainsSubstring("belongs to a model with model_type = \"llama\""));
  given.write("config.json", R"({"model_type": "xlm-roberta"})");
  CHECK(given.read().has_vocabulary());
  CHECK(missing_tokenizer(given.path()).find("spiece.model") == std::string::npos);
}

TEST_CASE("a folder of DeBERTa whose files contradict each other is refused") {
  const json& one = golden().named("deberta-v2");
  const std::string model = TokenizerGolden::text_from_hex(one["model"]);
  const GivenFolder given(one);
  given.write("tokenizer_config.json", R"({"vocab_type": "gpt2"})");
  CHECK(given.problem() ==
        "tokenizer_config.json: vocab_type is \"gpt2\", but spm.model holds a vocabulary of the type \"spm\": correct "
        "vocab_type, or remove spm.model if it is not the model's.");
  given.write("tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})");
  CHECK(given.problem() ==
        "spm.model: is no file of XLMRobertaTokenizer, whose model is sentencepiece.bpe.model: rename it, or remove it "
        "if the folder has both.");
  given.write("tokenizer_config.json", "{}");
  // Without a piece [UNK] of the score 0 the trainer's unk_id counts, field 40, which must be one of the pieces.
  const std::string pieces = std::string("\x0A\x03\x0A\x01", 4) + "a" + std::string("\x0A\x03\x0A\x01", 4) + "b";
  given.write("spm.model", pieces + std::string("\x12\x03\xC0\x02\x01", 5));
  const TokenizerFolder folder = given.read();
  REQUIRE(folder.problems.empty());
  std::vector<std::int32_t> ids;
  unigram_kind().make(folder.parts, "test")->encoder()->encode("a?", ids);
  CHECK(ids == std::vector<std::int32_t>{1, 0, 1});
  given.write("spm.model", pieces + std::string("\x12\x03\xC0\x02\x02", 5));
  CHECK(given.problem() == "spm.model: has the id 2 for unknown characters, which is no id of its pieces.");
  given.write("spm.model", model);
  CHECK(read_tokenizer_folder(given.path(), "spm.model").has_vocabulary());
  CHECK_FALSE(read_tokenizer_folder(given.path(), "sentencepiece.bpe.model").has_vocabulary());
}

TEST_CASE("a tokenizer.json whose steps the class of DeBERTa does not take counts, with a warning") {
  const json& one = golden().named("deberta-v2");
  const GivenFolder given(one);
  json document = one["tokenizer"];
  given.write("tokenizer.json", document.dump());
  CHECK(given.read().conflict.empty());
  document["normalizer"] = {{"type", "Strip"}};
  given.write("tokenizer.json", document.dump());
  const TokenizerFolder folder = given.read();
  CHECK(folder.problems.empty());
  CHECK_THAT(folder.conflict,
             ContainsSubstring("/tokenizer.json says how text is normalized and split, and DebertaV2Tokenizer of "
                               "Transformers 5 does it otherwise"));
  given.write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  CHECK(given.read().conflict.empty());
}
