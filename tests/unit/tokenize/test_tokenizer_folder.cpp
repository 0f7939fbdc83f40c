// Vocabularies and switches of folders in each form that Transformers saves.
#include "bert_hpc/tokenize/tokenizer_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "support/memory_taken.hpp"
#include "support/temporary_directory.hpp"
#include "support/tests_directory.hpp"

using namespace bert_hpc;
using namespace bert_hpc::tokenize;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("the lines of vocab.txt identify a folder's vocabulary, with any line ending") {
  const test::TemporaryDirectory scratch;
  CHECK_FALSE(read_tokenizer_folder(scratch.path()).has_vocabulary());
  for (const char* text : {"a\nb\n", "a\r\nb\r\n", "a\nb"}) {
    std::ofstream(scratch / "vocab.txt", std::ios::binary) << text;
    const TokenizerFolder folder = read_tokenizer_folder(scratch.path());
    CHECK(folder.pieces == 2);
    CHECK(folder.vocabulary_hash == core::hash_of_lines({"a", "b"}));
    CHECK_FALSE(folder.parts.settings.contains("lowercase"));
  }
  std::ofstream(scratch / "tokenizer_config.json") << R"({"do_lower_case": false})";
  CHECK(read_tokenizer_folder(scratch.path()).parts.settings == TokenizerSettings{{"lowercase", false}});
  std::ofstream(scratch / "tokenizer_config.json") << R"({"do_lower_case": null})";
  CHECK(read_tokenizer_folder(scratch.path()).parts.settings.empty());
  std::ofstream(scratch / "tokenizer_config.json") << "[";
  CHECK_THROWS_WITH(read_tokenizer_folder(scratch.path()), ContainsSubstring("tokenizer_config.json"));
}

namespace {

/// A folder with tokenizer.json and other files that a test writes.
struct SavedFolder : test::TemporaryDirectory {
  nlohmann::json document = nlohmann::json::parse(core::read_text_file(
      (bert_hpc::test::tests_directory() / "golden/tokenizer/tokenizer_cased.json").string(), 1 << 20));
  std::vector<std::string> pieces{document["model"]["vocab"].size()};

  SavedFolder() {
    for (const auto& [piece, id] : document["model"]["vocab"].items()) pieces[id.get<std::size_t>()] = piece;
    write_document();
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name, std::ios::binary) << text;
  }
  void write_document() const { write("tokenizer.json", document.dump()); }
  void write_lines(const std::vector<std::string>& lines) const {
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    write("vocab.txt", text);
  }
  TokenizerFolder read(const std::string& file = "") const { return read_tokenizer_folder(path(), file); }
};

}  // namespace

TEST_CASE("a vocabulary has one hash, from vocab.txt or tokenizer.json or both") {
  const SavedFolder saved;
  const TokenizerFolder of_json = saved.read();
  CHECK(of_json.file == "tokenizer.json");
  CHECK(of_json.parts.vocabulary == saved.pieces);
  CHECK(of_json.pieces == 26);
  CHECK(of_json.vocabulary_hash == core::hash_of_lines(saved.pieces));
  CHECK(of_json.problems.empty());
  CHECK(of_json.parts.settings ==
        TokenizerSettings{{"lowercase", false}, {"strip_accents", false}, {"tokenize_chinese_chars", true}});
  saved.write_lines(saved.pieces);
  CHECK(saved.read().file == "vocab.txt");
  CHECK(saved.read().vocabulary_hash == of_json.vocabulary_hash);
  CHECK(saved.read("tokenizer.json").file == "tokenizer.json");
}

TEST_CASE("vocab.txt and tokenizer.json of one folder must agree") {
  const SavedFolder saved;
  std::vector<std::string> lines = saved.pieces;
  lines[20] = "B";
  saved.write_lines(lines);
  CHECK_THROWS_WITH(saved.read(), ContainsSubstring("the piece 20 is \"B\" in vocab.txt and \"A\" in tokenizer.json"));
  CHECK(saved.read("vocab.txt").parts.vocabulary == lines);
  CHECK(saved.read("tokenizer.json").parts.vocabulary == saved.pieces);
  lines = saved.pieces;
  lines.push_back("more");
  saved.write_lines(lines);
  CHECK_THROWS_WITH(saved.read(),
                    ContainsSubstring("the piece 26 is \"more\" in vocab.txt and missing in tokenizer.json"));
}

TEST_CASE("of a piece that vocab.txt has twice tokenizer.json has the last alone") {
  SavedFolder saved;
  std::vector<std::string> lines = saved.pieces;
  lines.push_back("A");
  saved.write_lines(lines);
  saved.document["model"]["vocab"]["A"] = 26;
  saved.write_document();
  CHECK(saved.read().problems.empty());
  CHECK(saved.read().parts.vocabulary == lines);
  REQUIRE(saved.read("tokenizer.json").problems.size() == 1);
  CHECK_FALSE(saved.read("tokenizer.json").has_vocabulary());
}

TEST_CASE("tokenizers of other kinds have no vocabulary here, and a reason") {
  SavedFolder saved;
  saved.document["model"] = {{"type", "WordLevel"}, {"vocab", nlohmann::json::object()}};
  saved.write_document();
  const TokenizerFolder folder = saved.read();
  CHECK_FALSE(folder.has_vocabulary());
  REQUIRE(folder.problems.size() == 1);
  CHECK_THAT(folder.problems[0], ContainsSubstring("/tokenizer.json: holds a WordLevel tokenizer"));
}

TEST_CASE("where the two files differ, the tokenizer's class decides as in Transformers") {
  const SavedFolder saved;  // tokenizer.json is cased
  struct Case {
    const char* config;  // "": no file
    bool has_model;      // a config.json, whose class is BERT's
    std::optional<bool> lowercase;
    const char* conflict;
  };
  const char* const by_default =
      "but PATH/tokenizer_config.json leaves do_lower_case at its default, true; "
      "tokenizer_config.json is used, for BertTokenizer";
  const char* const as_it_says =
      "PATH/tokenizer.json says lowercase = false, but PATH/tokenizer_config.json says "
      "do_lower_case = true; tokenizer_config.json is used, for BertTokenizer";
  const Case cases[] = {
      {"", false, false, ""},
      {"", true, std::nullopt, by_default},
      {"{}", false, false, ""},
      {"{}", true, std::nullopt, by_default},
      {R"({"tokenizer_class": "BertTokenizer"})", false, std::nullopt, by_default},
      {R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false})", false, false, ""},
      {R"({"tokenizer_class": "BertTokenizer", "do_lower_case": true})", false, true, as_it_says},
      {R"({"do_lower_case": true})", true, true, as_it_says},
      {R"({"do_lower_case": true})", false, false, "tokenizer.json is used, as in Transformers"},
      {R"({"tokenizer_class": "TokenizersBackend", "do_lower_case": true})", true, false, "tokenizer.json is used"},
      {R"({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": false})", true, false, ""}};
  for (const Case& item : cases) {
    INFO(item.config << ' ' << item.has_model);
    std::filesystem::remove(saved / "tokenizer_config.json");
    std::filesystem::remove(saved / "config.json");
    if (*item.config != 0) saved.write("tokenizer_config.json", item.config);
    if (item.has_model) saved.write("config.json", R"({"model_type": "bert"})");
    const TokenizerFolder folder = saved.read();
    const auto found = folder.parts.settings.find("lowercase");
    CHECK((found == folder.parts.settings.end() ? std::nullopt : std::optional(found->second)) == item.lowercase);
    std::string conflict = folder.conflict;
    for (std::size_t at; (at = conflict.find(saved.path())) != std::string::npos;) {
      conflict.replace(at, saved.path().size(), "PATH");
    }
    CHECK(conflict.empty() == (*item.conflict == 0));
    CHECK_THAT(conflict, ContainsSubstring(item.conflict));
  }
}

TEST_CASE("special tokens that tokenizer_config.json names otherwise, and values that are no tokens, are a problem") {
  const SavedFolder saved;
  const auto problem = [&](const char* config) {
    saved.write("tokenizer_config.json", config);
    const TokenizerFolder folder = saved.read();
    return folder.problems.empty() ? "" : folder.problems.front();
  };
  CHECK(problem(R"({"unk_token": "[UNK]", "cls_token": {"content": "[CLS]"}, "mask_token": null})").empty());
  CHECK(problem(R"({"added_tokens_decoder": {"0": {"content": "[PAD]"}}, "additional_special_tokens": []})").empty());
  CHECK_THAT(problem(R"({"unk_token": "<unk>"})"), ContainsSubstring("unk_token is \"<unk>\""));
  CHECK_THAT(problem(R"({"extra_special_tokens": [7]})"), ContainsSubstring("extra_special_tokens has 7"));
  CHECK_THAT(problem(R"({"added_tokens_decoder": {"x": {"content": "[E1]"}}})"),
             ContainsSubstring("which is no token"));
  CHECK_THAT(problem(R"({"added_tokens_decoder": {"99": {"content": "[E1]"}}})"), ContainsSubstring("has the id 99"));
}

TEST_CASE("added tokens come from the file in which the folder's version of Transformers keeps them") {
  const SavedFolder saved;
  const auto added = [&] {
    const TokenizerFolder folder = saved.read();
    CHECK(folder.problems.empty());
    return folder.parts.added;
  };
  CHECK(added().empty());
  const auto pieces = static_cast<std::int32_t>(saved.read().parts.vocabulary.size());
  const std::string hash = saved.read().vocabulary_hash, id = std::to_string(pieces);

  saved.write("added_tokens.json", (R"({"[E2]": )" + std::to_string(pieces + 1) + R"(, "[E1]": )" + id + "}").c_str());
  CHECK(added() == std::vector<AddedToken>{{.content = "[E1]", .id = pieces, .normalized = true},
                                           {.content = "[E2]", .id = pieces + 1, .normalized = true}});
  CHECK(saved.read().pieces == pieces + 2);
  CHECK(saved.read().vocabulary_hash != hash);

  saved.write("tokenizer_config.json", R"({"extra_special_tokens": ["[E1]", "[E3]"]})");
  CHECK(added() == std::vector<AddedToken>{{.content = "[E1]", .id = pieces, .special = true},
                                           {.content = "[E2]", .id = pieces + 1, .normalized = true},
                                           {.content = "[E3]", .id = pieces + 2, .special = true}});

  saved.write("tokenizer_config.json",
              (R"({"added_tokens_decoder": {")" + id + R"(": {"content": "<ent>", "lstrip": true, "special": true}}})")
                  .c_str());
  CHECK(added() == std::vector<AddedToken>{{.content = "<ent>", .id = pieces, .lstrip = true, .special = true}});
}

TEST_CASE("the error for a folder without a tokenizer states the model's type and a remedy") {
  const test::TemporaryDirectory scratch;
  const auto said = [&](const char* config) {
    std::ofstream(scratch / "config.json") << config;
    return missing_tokenizer(scratch.path());
  };
  CHECK_THAT(said(R"({"model_type": "bert"})"),
             ContainsSubstring("holds no tokenizer.json") && ContainsSubstring("save_pretrained(\"" + scratch.path()));
  CHECK_THAT(said(R"({"model_type": "camembert"})"), ContainsSubstring("says model_type = \"camembert\"."));
  std::ofstream(scratch / "spiece.model") << "";
  CHECK_THAT(said("{}"), ContainsSubstring("Its spiece.model is not read. Copy the tokenizer.json"));
  CHECK_THAT(said("{"), ContainsSubstring("Copy the tokenizer.json"));
  std::ofstream(scratch / "merges.txt") << "";
  CHECK_THAT(said("{}"), ContainsSubstring("Its merges.txt belongs to a BPE tokenizer"));
}

TEST_CASE("the file that a folder lacks is made from the one that it has") {
  const test::TemporaryDirectory scratch;
  const std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n";
  std::ofstream(scratch / "vocab.txt") << lines;
  const auto lacking = [&] { return lacking_tokenizer_files(scratch.path()); };
  CHECK(lacking().empty());  // which case is not known
  std::ofstream(scratch / "tokenizer_config.json") << R"({"do_lower_case": false})";
  const auto made = lacking();
  REQUIRE(made.size() == 1);
  CHECK(made[0].first == "tokenizer.json");
  std::ofstream(scratch / "tokenizer.json") << made[0].second;
  CHECK(lacking().empty());
  CHECK(read_tokenizer_folder(scratch.path()).conflict.empty());
  std::filesystem::remove(scratch / "vocab.txt");
  CHECK(lacking() == std::vector<std::pair<std::string, std::string>>{{"vocab.txt", lines}});
  std::ofstream(scratch / "tokenizer.json") << R"({"model": {"type": "WordLevel"}})";
  CHECK(lacking().empty());
}

TEST_CASE("the files of a tokenizer are copied with a model, other text under their names is not") {
  const test::TemporaryDirectory scratch, secret;
  const std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n\xC3\xA9\n", merges = "#version: 0.2\na b\n";
  std::ofstream(scratch / "vocab.txt") << lines;
  std::ofstream(scratch / "merges.txt") << merges;
  std::ofstream(scratch / "tokenizer_config.json") << R"({"do_lower_case": true})";
  std::ofstream(scratch / "sentencepiece.bpe.model") << "x";
  const auto copied = copied_tokenizer_files(scratch.path());
  const std::map<std::string, std::string> by_name(copied.begin(), copied.end());
  CHECK(by_name == std::map<std::string, std::string>{{"vocab.txt", lines},
                                                      {"merges.txt", merges},
                                                      {"tokenizer_config.json", R"({"do_lower_case": true})"}});
  for (const char* of_others : {"<s>\n</s>\n", "<cls>\n<eos>\n"}) {
    std::ofstream(scratch / "vocab.txt") << of_others;
    CHECK(copied_tokenizer_files(scratch.path()).size() == 3);
  }
  std::ofstream(secret / "key") << "-----BEGIN PRIVATE KEY-----\n";
  for (const char* name :
       {"vocab.txt", "merges.txt", "vocab.json", "added_tokens.json", "tokenizer.json", "special_tokens_map.json"}) {
    std::filesystem::remove(scratch / name);
    std::filesystem::create_symlink(secret / "key", scratch / name);
    CHECK_THROWS_WITH(copied_tokenizer_files(scratch.path()), ContainsSubstring(name));
    std::filesystem::remove(scratch / name);
  }
  std::ofstream(scratch / "merges.txt") << "a b\nsecret\n";
  CHECK_THROWS_WITH(copied_tokenizer_files(scratch.path()), ContainsSubstring("no list of merges, a pair a line"));
  std::filesystem::remove(scratch / "merges.txt");
  std::ofstream(scratch / "vocab.txt") << "[CLS] <s> <eos>";
  CHECK_THROWS_WITH(
      copied_tokenizer_files(scratch.path()),
      ContainsSubstring("vocab.txt: is no WordPiece vocabulary, which has [CLS] and [SEP] or <s> and </s>, "
                        "and no vocabulary of letters, which has <cls> and <eos>."));
}

TEST_CASE("settings that are long or deep are refused before memory is taken for them") {
  const test::TemporaryDirectory scratch;
  const auto refused = [&](const std::string& text, const char* why) {
    std::ofstream(scratch / "tokenizer_config.json") << text;
    const auto read = [&] { read_tokenizer_folder(scratch.path()); };
    CHECK(test::memory_taken(read) < std::int64_t{32} << 20);
    CHECK_THROWS_WITH(read(), ContainsSubstring(why));
  };
  refused(std::string(std::size_t{4} << 20, '['), "nested too deeply");
  refused("{\"a\": " + std::string(17, '[') + std::string(17, ']') + "}", "nested too deeply");
  refused("[" + std::string(std::size_t{5} << 20, ' ') + "]", "longer than");
  refused("[\"" + std::string(64, '[') + "\"]", "not a JSON object");
  std::ofstream(scratch / "tokenizer_config.json") << R"({"do_lower_case": false, "x": "[[[[[[[[[[[[[[[[[[[[[[[["})";
  CHECK(read_tokenizer_folder(scratch.path()).parts.settings == TokenizerSettings{{"lowercase", false}});
}
