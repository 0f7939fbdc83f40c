// Vocabularies and cases that do not go together are told; what is not known is not.
#include "bert_hpc/data/tokenizer_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
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

TEST_CASE("a folder's vocabulary is told by its lines, however they end") {
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

TEST_CASE("shards of another vocabulary or case are not for a model; what either side does not tell is not compared") {
  data::TokenizerFolder model{"run/model", core::hash_of_lines({"a", "b"}), 2, {true, {}, {}}};
  const data::ShardInfo same = shards_of({"a", "b"}), other = shards_of({"b", "a"});
  CHECK(tokenizer_difference(model, same, {true, {}, {}}).empty());
  CHECK(tokenizer_difference(model, same, {}).empty());
  CHECK_THAT(tokenizer_difference(model, other, {true, {}, {}}),
             ContainsSubstring("another vocabulary") && ContainsSubstring(other.vocabulary_hash) &&
                 ContainsSubstring("run/model/vocab.txt") &&
                 ContainsSubstring("[tokenizer] vocabulary = \"run/model\""));
  CHECK_THAT(tokenizer_difference(model, same, {false, {}, {}}),
             ContainsSubstring("lowercase = false") && ContainsSubstring("do_lower_case = true"));
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

TEST_CASE("a vocabulary is the shards' own where they say which, else one that fits into the model") {
  const data::TokenizerFolder folder{"f", core::hash_of_lines({"a", "b"}), 2, {}};
  CHECK(is_vocabulary_of(folder, shards_of({"a", "b"}), 2));
  CHECK_FALSE(is_vocabulary_of(folder, shards_of({"b", "a"}), 2));
  CHECK(data::is_vocabulary_of(folder, {}, 3));
  CHECK_FALSE(is_vocabulary_of(folder, {}, 1));
  CHECK_FALSE(data::is_vocabulary_of({}, {}, 3));
}
