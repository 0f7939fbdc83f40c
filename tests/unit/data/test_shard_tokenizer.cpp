// Shards that were made with another tokenizer than a model's.
#include "bert_hpc/data/shard_tokenizer.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/hash.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using tokenize::TokenizerFolder;

namespace {

const std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"};

/// `settings`: the shard's switches as JSON, such as R"("lowercase": true)".
data::ShardInfo shards_of(const std::vector<std::string>& vocabulary, const std::string& settings = "") {
  data::ShardInfo info;
  info.vocabulary_hash = core::hash_of_lines(vocabulary);
  info.vocabulary_size = static_cast<std::int64_t>(vocabulary.size());
  info.tokenizer = "{" + settings + "}";
  return info;
}

TokenizerFolder model_of(const std::vector<std::string>& vocabulary) {
  return {.path = "run/model",
          .kind = tokenize::find_tokenizer_kind("wordpiece"),
          .vocabulary_hash = core::hash_of_lines(vocabulary),
          .pieces = static_cast<std::int64_t>(vocabulary.size()),
          .parts = {.vocabulary = vocabulary, .settings = {{"lowercase", true}}},
          .config_settings = {{"lowercase", true}},
          .file = "vocab.txt"};
}

std::string difference(const TokenizerFolder& model, const data::ShardInfo& shards) {
  return tokenizer_difference(model, shards, "a.h5");
}

}  // namespace

TEST_CASE("shards of another vocabulary or case are refused; switches that one side does not state are not compared") {
  TokenizerFolder model = model_of({"a", "b"});
  const data::ShardInfo other = shards_of({"b", "a"});
  CHECK(difference(model, shards_of({"a", "b"}, R"("lowercase": true)")).empty());
  CHECK(difference(model, shards_of({"a", "b"})).empty());
  CHECK_THAT(difference(model, other), ContainsSubstring("another vocabulary") &&
                                           ContainsSubstring(other.vocabulary_hash) &&
                                           ContainsSubstring("run/model/vocab.txt") &&
                                           ContainsSubstring("[tokenizer] vocabulary = \"run/model\""));
  CHECK_THAT(difference(model, shards_of({"a", "b"}, R"("lowercase": false)")),
             ContainsSubstring("lowercase = false") &&
                 ContainsSubstring("run/model/tokenizer_config.json says do_lower_case = true"));
  CHECK_THAT(difference(model, shards_of({"a", "b"}, R"("lowercase": true, "strip_accents": false)")),
             ContainsSubstring("strip_accents = false") && ContainsSubstring("strip_accents = true"));
  const std::string joined = R"("lowercase": true, "strip_accents": true, "tokenize_chinese_chars": false)";
  CHECK(difference(model, shards_of({"a", "b"}, joined)).empty());
  model.parts.settings["tokenize_chinese_chars"] = true;
  CHECK_THAT(difference(model, shards_of({"a", "b"}, joined)), ContainsSubstring("tokenize_chinese_chars = false"));
  data::ShardInfo foreign = other;
  foreign.vocabulary_hash = "";
  CHECK(difference(model, foreign).empty());
  model.parts.settings = {};
  CHECK(difference(model, shards_of({"a", "b"}, R"("lowercase": false)")).empty());
  model.vocabulary_hash = "";
  CHECK(difference(model, other).empty());
  CHECK(difference({}, other).empty());
}

TEST_CASE("a specification other than the model's is refused where the model's files state all of it") {
  TokenizerFolder model = model_of(pieces);
  data::ShardInfo shards = shards_of(pieces, R"("lowercase": true)");
  shards.tokenizer_hash = "cafe";
  CHECK(model.spec_hash().empty());  // tokenize_chinese_chars is not known
  CHECK(difference(model, shards).empty());
  model.parts.settings["tokenize_chinese_chars"] = true;
  CHECK_THAT(difference(model, shards),
             ContainsSubstring("another tokenizer (specification cafe)") && ContainsSubstring(model.spec_hash()));
  shards.tokenizer_hash = model.spec_hash();
  CHECK(difference(model, shards).empty());
}

TEST_CASE("the vocabulary is that of the shards where they state it, else one that fits the model") {
  const TokenizerFolder folder = model_of({"a", "b"});
  CHECK(data::is_vocabulary_of(folder, shards_of({"a", "b"}), 2));
  CHECK_FALSE(data::is_vocabulary_of(folder, shards_of({"b", "a"}), 2));
  CHECK(data::is_vocabulary_of(folder, {}, 3));
  CHECK_FALSE(data::is_vocabulary_of(folder, {}, 1));
  CHECK_FALSE(data::is_vocabulary_of({}, {}, 3));
}
