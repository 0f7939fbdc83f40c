// Added tokens against Transformers (tests/golden/tokenizer/make_added_tokens.py) and by hand.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bert_hpc/tokenize/added_tokens_json.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"
#include "support/counted_heap.hpp"
#include "support/tests_directory.hpp"

using namespace bert_hpc::tokenize;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

json golden(const std::string& name) {
  std::ifstream stream(bert_hpc::test::tests_directory() / "golden/tokenizer" / name);
  return json::parse(stream);
}

TextForm form_named(const std::string& name) {
  if (name == "cased") return cased;
  if (name == "accented") return {.strip_accents = false};
  return name == "joined" ? TextForm{.tokenize_chinese_chars = false} : uncased;
}

std::unique_ptr<Tokenizer> tokenizer_of(const std::vector<std::string>& pieces, std::vector<AddedToken> added,
                                        const TextForm& form = uncased) {
  CHECK(settle_added_tokens(pieces, added, bert_layout().tokens) == std::vector<std::string>());
  return wordpiece_kind().make({.vocabulary = pieces, .added = std::move(added), .settings = settings_of(form)},
                               "test");
}

const std::vector<std::string> small = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "##s"};

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encoder()->encode(text, ids);
  return ids;
}

}  // namespace

TEST_CASE("text is split at added tokens as in Transformers, with the same ids and offsets") {
  const json ids_golden = golden("ids.json");
  std::vector<std::string> vocabulary;
  for (const json& piece : ids_golden["vocabulary"]) {
    const bool is_first = std::find(vocabulary.begin(), vocabulary.end(), piece) == vocabulary.end();
    if (is_first) vocabulary.push_back(piece);
  }
  const json cases = golden("added_tokens.json")["cases"];
  for (const json& one : cases) {
    std::vector<AddedToken> added;
    for (const json& token : one["tokens"]) added.push_back(added_token_of(token).value());
    const auto tokenizer = tokenizer_of(vocabulary, added, form_named(one["form"]));
    const auto encoder = tokenizer->encoder();
    for (const json& text : one["texts"]) {
      INFO(one["form"] << ' ' << one["tokens"] << ' ' << text["text"]);
      const auto given = text["text"].get<std::string>();
      std::vector<std::int32_t> ids, with_spans, offsets;
      std::vector<TokenSpan> spans;
      encoder->encode(given, ids);
      encoder->encode_with_spans(given, with_spans, spans);
      for (const TokenSpan& span : spans) offsets.insert(offsets.end(), {span.begin, span.end});
      CHECK(ids == text["ids"].get<std::vector<std::int32_t>>());
      CHECK(with_spans == ids);
      CHECK(offsets == text["places"].get<std::vector<std::int32_t>>());
    }
  }
  CHECK(cases.size() == 16);
}

TEST_CASE("added tokens have the ids of their pieces, or those behind the vocabulary in their order") {
  std::vector<AddedToken> added = {{.content = "[E2]"}, {.content = "dog"},  {.content = "[E1]"},
                                   {.content = ""},     {.content = "[E2]"}, {.content = "[CLS]", .id = 2}};
  REQUIRE(settle_added_tokens(small, added, bert_layout().tokens).empty());
  REQUIRE(added.size() == 3);
  CHECK(added[0] == AddedToken{.content = "dog", .id = 6});
  CHECK(added[1] == AddedToken{.content = "[E2]", .id = 8});
  CHECK(added[2] == AddedToken{.content = "[E1]", .id = 9});
  const auto tokenizer = wordpiece_kind().make({.vocabulary = small, .added = added}, "test");
  CHECK(tokenizer->size() == 10);
  CHECK(tokenizer->tokens().back() == "[E1]");
  CHECK(ids_of(*tokenizer, "the[E1]dogs[E2]") == std::vector<std::int32_t>{5, 9, 6, 1, 8});
}

TEST_CASE("ids of added tokens that leave a gap or differ from the vocabulary's are a problem") {
  const auto problem = [](std::vector<AddedToken> added) {
    const std::vector<std::string> problems = settle_added_tokens(small, added, bert_layout().tokens);
    return problems.size() == 1 ? problems.front() : "";
  };
  CHECK_THAT(problem({{.content = "[E1]", .id = 9}}),
             ContainsSubstring("\"[E1]\" has the id 9, but the first free one is 8"));
  CHECK_THAT(problem({{.content = "dog", .id = 8}}), ContainsSubstring("as a piece of the vocabulary it has 6"));
}

TEST_CASE("the hash of a vocabulary depends on its added tokens, and is that of the pieces without any") {
  const auto hash = [](const std::vector<AddedToken>& added) { return tokenizer_of(small, added)->vocabulary_hash(); };
  CHECK(hash({}) == Vocabulary(small, "test").hash());
  CHECK(hash({{.content = "[E1]"}}) != hash({}));
  CHECK(hash({{.content = "[E1]"}}) != hash({{.content = "[E2]"}}));
  CHECK(hash({{.content = "dog"}}) != hash({{.content = "dog", .normalized = true}}));
  CHECK(hash({{.content = "dog"}}) == hash({{.content = "dog", .special = true}}));
}

TEST_CASE("files of a tokenizer hold its added tokens") {
  const AddedToken token{.content = "[E1]", .id = 8, .lstrip = true, .normalized = true};
  const auto tokenizer = tokenizer_of(small, {token});
  std::size_t found = 0;
  for (const Tokenizer::File& file : tokenizer->files(512)) {
    if (file.name == "vocab.txt") CHECK(file.text.find("[E1]") == std::string::npos);
    if (file.name == "vocab.txt") continue;
    const json document = json::parse(file.text);
    const bool is_config = file.name == "tokenizer_config.json";
    json own = is_config ? document["added_tokens_decoder"]["8"] : document["added_tokens"][5];
    if (is_config) own["id"] = 8;
    CHECK(added_token_of(own) == token);
    CHECK(document[is_config ? "added_tokens_decoder" : "added_tokens"].size() == 6);
    ++found;
  }
  CHECK(found == 2);
}

TEST_CASE("encoding beside added tokens allocates no memory where the caller's vectors have room") {
  const auto tokenizer = tokenizer_of(small, {{.content = "[E1]"}, {.content = "New York", .normalized = true}});
  const auto encoder = tokenizer->encoder();
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "the [E1] dog\u00e9 in new york [MASK] " + std::to_string(i);
  std::vector<std::int32_t> ids;
  std::vector<TokenSpan> spans;
  ids.reserve(100000);
  spans.reserve(100000);
  encoder->encode_with_spans(text, ids, spans);  // normalized text finds its room
  ids.clear();
  spans.clear();
  const std::int64_t before = bert_hpc::test::allocations_so_far();
  encoder->encode(text, ids);
  encoder->encode_with_spans(text, ids, spans);
  CHECK(bert_hpc::test::allocations_so_far() == before);
  CHECK(ids.size() == 2 * spans.size());
}
