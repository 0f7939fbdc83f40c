// Vocabularies and text settings of folders in each form that Transformers saves, and of shards that do not go with
// them.
#include "bert_hpc/data/tokenizer_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "shard_fixture.hpp"
#include "support/memory_taken.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

data::ShardInfo shards_of(const std::vector<std::string>& pieces) {
  data::ShardInfo info;
  info.vocabulary_hash = core::hash_of_lines(pieces);
  info.vocabulary_size = static_cast<std::int64_t>(pieces.size());
  return info;
}

}  // namespace

TEST_CASE("the lines of vocab.txt identify a folder's vocabulary, with any line ending") {
  const test::ScratchDirectory scratch;
  CHECK_FALSE(data::read_tokenizer_folder(scratch.path.string()).has_vocabulary());
  for (const char* text : {"a\nb\n", "a\r\nb\r\n", "a\nb"}) {
    std::ofstream(scratch / "vocab.txt", std::ios::binary) << text;
    const data::TokenizerFolder folder = data::read_tokenizer_folder(scratch.path.string());
    CHECK(folder.pieces == 2);
    CHECK(folder.vocabulary_hash == core::hash_of_lines({"a", "b"}));
    CHECK_FALSE(folder.text.lowercase);
  }
  std::ofstream(scratch / "tokenizer_config.json") << R"({"do_lower_case": false})";
  CHECK(data::read_tokenizer_folder(scratch.path.string()).text.lowercase == false);
  std::ofstream(scratch / "tokenizer_config.json") << R"({"do_lower_case": null})";
  CHECK_FALSE(data::read_tokenizer_folder(scratch.path.string()).text.lowercase);
  std::ofstream(scratch / "tokenizer_config.json") << "[";
  CHECK_THROWS_WITH(data::read_tokenizer_folder(scratch.path.string()), ContainsSubstring("tokenizer_config.json"));
}

TEST_CASE("shards of another vocabulary or case are refused; settings that one side does not state are not compared") {
  data::TokenizerFolder model{.path = "run/model",
                              .vocabulary_hash = core::hash_of_lines({"a", "b"}),
                              .pieces = 2,
                              .text = {true, {}, {}},
                              .config_text = {true, {}, {}},
                              .file = "vocab.txt"};
  const data::ShardInfo same = shards_of({"a", "b"}), other = shards_of({"b", "a"});
  CHECK(tokenizer_difference(model, same, {true, {}, {}}).empty());
  CHECK(tokenizer_difference(model, same, {}).empty());
  CHECK_THAT(tokenizer_difference(model, other, {true, {}, {}}),
             ContainsSubstring("another vocabulary") && ContainsSubstring(other.vocabulary_hash) &&
                 ContainsSubstring("run/model/vocab.txt") &&
                 ContainsSubstring("[tokenizer] vocabulary = \"run/model\""));
  CHECK_THAT(tokenizer_difference(model, same, {false, {}, {}}),
             ContainsSubstring("lowercase = false") &&
                 ContainsSubstring("run/model/tokenizer_config.json says do_lower_case = true"));
  CHECK_THAT(tokenizer_difference(model, same, {true, false, {}}),  // the model's follows from its case
             ContainsSubstring("strip_accents = false") && ContainsSubstring("strip_accents = true"));
  CHECK(tokenizer_difference(model, same, {true, true, false}).empty());
  model.text.tokenize_chinese_chars = true;
  CHECK_THAT(tokenizer_difference(model, same, {true, true, false}),
             ContainsSubstring("tokenize_chinese_chars = false"));
  data::ShardInfo foreign = other;
  foreign.vocabulary_hash = "";
  CHECK(tokenizer_difference(model, foreign, {}).empty());
  model.text = {};
  CHECK(tokenizer_difference(model, same, {false, {}, {}}).empty());
  model.vocabulary_hash = "";
  CHECK(tokenizer_difference(model, other, {true, {}, {}}).empty());
}

namespace {

/// A folder with tokenizer.json and other files that a test writes.
struct SavedFolder : test::ScratchDirectory {
  nlohmann::json document = nlohmann::json::parse(
      core::read_text_file(BERT_HPC_TESTS_DIRECTORY "/golden/tokenizer/tokenizer_cased.json", 1 << 20));
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
  data::TokenizerFolder read(const std::string& file = "") const {
    return data::read_tokenizer_folder(path.string(), file);
  }
};

}  // namespace

TEST_CASE("a vocabulary has one hash, from vocab.txt or tokenizer.json or both") {
  const SavedFolder saved;
  const data::TokenizerFolder of_json = saved.read();
  CHECK(of_json.file == "tokenizer.json");
  CHECK(of_json.vocabulary == saved.pieces);
  CHECK(of_json.pieces == 26);
  CHECK(of_json.vocabulary_hash == core::hash_of_lines(saved.pieces));
  CHECK(of_json.problems.empty());
  CHECK(of_json.text.lowercase == false);
  CHECK(tokenizer_difference(of_json, shards_of(saved.pieces), {false, false, true}).empty());
  CHECK_THAT(tokenizer_difference(of_json, shards_of({"a"}), {}), ContainsSubstring("/tokenizer.json (26 tokens"));
  CHECK_THAT(tokenizer_difference(of_json, shards_of(saved.pieces), {true, {}, {}}),
             ContainsSubstring("/tokenizer.json says lowercase = false"));
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
  CHECK(saved.read("vocab.txt").vocabulary == lines);
  CHECK(saved.read("tokenizer.json").vocabulary == saved.pieces);
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
  CHECK(saved.read().vocabulary == lines);
  REQUIRE(saved.read("tokenizer.json").problems.size() == 1);
  CHECK_FALSE(saved.read("tokenizer.json").has_vocabulary());
}

TEST_CASE("tokenizers of other kinds have no vocabulary here, and a reason") {
  SavedFolder saved;
  saved.document["model"] = {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", nlohmann::json::array()}};
  saved.write_document();
  const data::TokenizerFolder folder = saved.read();
  CHECK_FALSE(folder.has_vocabulary());
  REQUIRE(folder.problems.size() == 1);
  CHECK_THAT(folder.problems[0], ContainsSubstring("/tokenizer.json: holds a BPE tokenizer"));
  CHECK(tokenizer_difference(folder, shards_of({"a"}), {}).empty());
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
    const data::TokenizerFolder folder = saved.read();
    CHECK(folder.text.lowercase == item.lowercase);
    std::string conflict = folder.conflict;
    for (std::size_t at; (at = conflict.find(saved.path.string())) != std::string::npos;) {
      conflict.replace(at, saved.path.string().size(), "PATH");
    }
    CHECK(conflict.empty() == (*item.conflict == 0));
    CHECK_THAT(conflict, ContainsSubstring(item.conflict));
  }
}

TEST_CASE("special tokens that tokenizer_config.json names otherwise, and values that are no tokens, are a problem") {
  const SavedFolder saved;
  const auto problem = [&](const char* config) {
    saved.write("tokenizer_config.json", config);
    const data::TokenizerFolder folder = saved.read();
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
    const data::TokenizerFolder folder = saved.read();
    CHECK(folder.problems.empty());
    return folder.added;
  };
  using tokenize::AddedToken;
  CHECK(added().empty());
  const auto pieces = static_cast<std::int32_t>(saved.read().vocabulary.size());
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
  const test::ScratchDirectory scratch;
  const auto said = [&](const char* config) {
    std::ofstream(scratch / "config.json") << config;
    return data::missing_tokenizer(scratch.path.string());
  };
  CHECK_THAT(said(R"({"model_type": "bert"})"), ContainsSubstring("holds neither vocab.txt nor tokenizer.json") &&
                                                    ContainsSubstring("save_pretrained(\"" + scratch.path.string()));
  for (const char* type : {"roberta", "gpt2", "modernbert"}) {
    CHECK_THAT(said(("{\"model_type\": \"" + std::string(type) + "\"}").c_str()),
               ContainsSubstring("model_type = \"" + std::string(type) + "\", whose tokenizer is BPE"));
  }
  CHECK_THAT(said("{"), ContainsSubstring("Copy the vocab.txt"));
  std::ofstream(scratch / "merges.txt") << "";
  CHECK_THAT(said("{}"), ContainsSubstring("Its merges.txt belongs to a BPE tokenizer"));
}

TEST_CASE("the file that a folder lacks is made from the one that it has") {
  const test::ScratchDirectory scratch;
  const std::string lines = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n";
  std::ofstream(scratch / "vocab.txt") << lines;
  const auto lacking = [&] { return data::lacking_tokenizer_files(scratch.path.string()); };
  CHECK(lacking().empty());  // which case is not known
  std::ofstream(scratch / "tokenizer_config.json") << R"({"do_lower_case": false})";
  const auto made = lacking();
  REQUIRE(made.size() == 1);
  CHECK(made[0].first == "tokenizer.json");
  std::ofstream(scratch / "tokenizer.json") << made[0].second;
  CHECK(lacking().empty());
  CHECK(data::read_tokenizer_folder(scratch.path.string()).conflict.empty());
  std::filesystem::remove(scratch / "vocab.txt");
  CHECK(lacking() == std::vector<std::pair<std::string, std::string>>{{"vocab.txt", lines}});
  std::ofstream(scratch / "tokenizer.json") << R"({"model": {"type": "BPE"}})";
  CHECK(lacking().empty());
}

TEST_CASE("settings that are long or deep are refused before memory is taken for them") {
  const test::ScratchDirectory scratch;
  const auto refused = [&](const std::string& text, const char* why) {
    std::ofstream(scratch / "tokenizer_config.json") << text;
    const auto read = [&] { data::read_tokenizer_folder(scratch.path.string()); };
    CHECK(test::memory_taken(read) < std::int64_t{32} << 20);
    CHECK_THROWS_WITH(read(), ContainsSubstring(why));
  };
  refused(std::string(std::size_t{4} << 20, '['), "nested too deeply");
  refused("{\"a\": " + std::string(17, '[') + std::string(17, ']') + "}", "nested too deeply");
  refused("[" + std::string(std::size_t{5} << 20, ' ') + "]", "longer than");
  refused("[\"" + std::string(64, '[') + "\"]", "not a JSON object");
  std::ofstream(scratch / "tokenizer_config.json") << R"({"do_lower_case": false, "x": "[[[[[[[[[[[[[[[[[[[[[[[["})";
  CHECK(data::read_tokenizer_folder(scratch.path.string()).text.lowercase == false);
}

TEST_CASE("the vocabulary is that of the shards where they state it, else one that fits the model") {
  const data::TokenizerFolder folder{.path = "f", .vocabulary_hash = core::hash_of_lines({"a", "b"}), .pieces = 2};
  CHECK(is_vocabulary_of(folder, shards_of({"a", "b"}), 2));
  CHECK_FALSE(is_vocabulary_of(folder, shards_of({"b", "a"}), 2));
  CHECK(data::is_vocabulary_of(folder, {}, 3));
  CHECK_FALSE(is_vocabulary_of(folder, {}, 1));
  CHECK_FALSE(data::is_vocabulary_of({}, {}, 3));
}
