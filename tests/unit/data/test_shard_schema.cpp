#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/shard_schema.hpp"

using namespace bert_hpc::data;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("label names survive JSON") {
  const std::vector<std::string> names = {"noun.act", "with \"quotes\" and \\", "naïve\n", ""};
  CHECK(label_names_from_json(label_names_to_json(names), "a.h5") == names);
  CHECK(label_names_from_json("[]", "a.h5").empty());
}

TEST_CASE("label names that are no array of strings are refused, naming the file") {
  for (const char* text : {"", "{", "3", "[1]", "{\"a\": \"b\"}", "[\"a\", null]"}) {
    try {
      label_names_from_json(text, "a.h5");
      FAIL("accepted: " << text);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::data);
      CHECK_THAT(error.what(), ContainsSubstring("a.h5") && ContainsSubstring("label_names"));
    }
  }
}

TEST_CASE("special ids come from the tokenizer's settings") {
  CHECK(special_ids_from_json(R"({"cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0, "type": "wordpiece"})",
                              "a.h5") == SpecialIds{2, 3, 4, 0});
  CHECK(special_ids_from_json(R"({"mask_id": 4, "unk_id": 1})", "a.h5") == SpecialIds{-1, -1, 4, -1, 1});
  CHECK(special_ids_from_json(R"({"cls_id": 2, "mask_id": null})", "a.h5") == SpecialIds{2, -1, -1, -1});
  for (const char* text : {"[]", "{\"cls_id\": \"2\"}", "{\"cls_id\": 1e30}", "{\"cls_id\": 4294967296}", "x"}) {
    CHECK_THROWS_AS(special_ids_from_json(text, "a.h5"), Error);
  }
}

TEST_CASE("prompts come from the tokenizer's settings where they say") {
  const ShardPrompts prompts = prompts_from_json(R"({"prompt": "query: ", "prompt_pair": "\u00df"})", "a.h5");
  CHECK(prompts.text == "query: ");
  CHECK(prompts.text_pair == "ß");
  CHECK(prompts_from_json(R"({"type": "wordpiece"})", "a.h5").text.empty());
  CHECK_THROWS_WITH(prompts_from_json(R"({"prompt": ["query: "]})", "a.h5"),
                    ContainsSubstring("a.h5") && ContainsSubstring("'prompt'") && ContainsSubstring("must be a text"));
}

TEST_CASE("case comes from the tokenizer's settings where they say") {
  namespace tokenize = bert_hpc::tokenize;
  using tokenize::TokenizerSettings;
  const ShardTokenizer stated = shard_tokenizer(R"({"type": "wordpiece", "cls_id": 2, "lowercase": false})", "a.h5");
  CHECK(stated.kind == tokenize::find_tokenizer_kind("wordpiece"));
  CHECK(stated.settings == TokenizerSettings{{"lowercase", false}});
  CHECK(shard_tokenizer(R"({"strip_accents": 1})", "a.h5").settings.empty());
  CHECK(shard_tokenizer("{}", "a.h5").kind == stated.kind);  // foreign shards do not state it
  CHECK(shard_tokenizer(R"({"type": "other"})", "a.h5").kind == nullptr);
  CHECK_THROWS_AS(shard_tokenizer("x", "a.h5"), Error);
}
