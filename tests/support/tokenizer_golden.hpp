// Goldens of tokenizers: texts, and for each form of a tokenizer its tokenizer.json with the ids and offsets that
// Hugging Face's tokenizers gives (tests/golden/tokenizer/make_*.py).
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bert_hpc/tokenize/tokenizer_folder.hpp"
#include "support/temporary_file.hpp"
#include "support/tests_directory.hpp"

namespace bert_hpc::test {

class TokenizerGolden {
 public:
  using Ids = std::vector<std::int32_t>;

  explicit TokenizerGolden(const std::string& name) {
    std::ifstream stream(tests_directory() / "golden/tokenizer" / name);
    file_ = nlohmann::json::parse(stream);
  }
  const nlohmann::json& file() const { return file_; }
  const nlohmann::json& cases() const { return file_["cases"]; }

  const nlohmann::json& named(const std::string& name) const {
    for (const nlohmann::json& one : cases()) {
      if (one["name"] == name) return one;
    }
    throw std::runtime_error(name);
  }

  static tokenize::TokenizerParts parts_of(const nlohmann::json& one, const tokenize::TokenizerKind& kind) {
    const tokenize::TokenizerFolder folder =
        tokenize::read_tokenizer_file(TemporaryFile(one["tokenizer"].dump()).path());
    INFO((folder.problems.empty() ? "" : folder.problems.front()));
    REQUIRE(folder.problems.empty());
    REQUIRE(folder.kind == &kind);
    return folder.parts;
  }
  static std::unique_ptr<tokenize::Tokenizer> tokenizer_of(const nlohmann::json& one,
                                                           const tokenize::TokenizerKind& kind) {
    return kind.make(parts_of(one, kind), "test");
  }

  /// Checks that the tokenizer.json that each case's tokenizer writes reads back to the same tokenizer.
  void check_written(const tokenize::TokenizerKind& kind) const {
    for (const nlohmann::json& one : cases()) {
      const auto tokenizer = tokenizer_of(one, kind);
      const auto again = tokenizer_of({{"tokenizer", nlohmann::json::parse(tokenizer->spec().text)}}, kind);
      check_texts(*again, one);
      CHECK(again->spec().text == tokenizer->spec().text);
      CHECK(again->spec().hash == tokenizer->spec().hash);
      CHECK(again->vocabulary_hash() == tokenizer->vocabulary_hash());
    }
  }

  /// First problem of the tokenizer.json that `change` makes of the first case's.
  std::string problem_after(const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json document = cases()[0]["tokenizer"];
    change(document);
    const tokenize::TokenizerFolder folder = tokenize::read_tokenizer_file(TemporaryFile(document.dump()).path());
    return folder.problems.empty() ? "no problem" : folder.problems.front();
  }

  /// A vocabulary as the text of a vocab.txt.
  static std::string lines_of(const nlohmann::json& vocabulary) {
    std::string text;
    for (const nlohmann::json& token : vocabulary) text += token.get<std::string>() + '\n';
    return text;
  }

  static std::string text_from_hex(const std::string& hex) {
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    return bytes;
  }

  /// Ids of a text, or of a pair, with the special tokens around them.
  static Ids sequence_of(const tokenize::Tokenizer& tokenizer, std::string_view text, std::string_view second = "") {
    const tokenize::SequenceTemplate& sequence = tokenizer.sequence();
    Ids ids;
    const auto add = [&](const tokenize::SequenceTemplate::Roles& roles) {
      for (const std::int32_t id : ids_of(roles, tokenizer.special_ids())) ids.push_back(id);
    };
    add(sequence.before);
    tokenizer.encoder()->encode(text, ids);
    add(second.empty() ? sequence.after : sequence.between);
    if (second.empty()) return ids;
    tokenizer.encoder()->encode(second, ids);
    add(sequence.after_pair);
    return ids;
  }

  /// The golden sequences of a text and of a pair with the special tokens.
  static void check_sequences(const tokenize::Tokenizer& tokenizer, const nlohmann::json& one, std::string_view text,
                              std::string_view second) {
    CHECK(sequence_of(tokenizer, text) == one["single"].get<Ids>());
    CHECK(sequence_of(tokenizer, text, second) == one["pair"].get<Ids>());
  }

  /// Ids and offsets of all texts. Both functions append, and the second pass takes words from the cache.
  void check_texts(const tokenize::Tokenizer& tokenizer, const nlohmann::json& one) const {
    const auto encoder = tokenizer.encoder();
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t i = 0; i < file_["texts"].size(); ++i) {
        const std::string text = text_from_hex(file_["texts"][i]);
        INFO(one["name"] << ", " << file_["texts"][i] << ", pass " << pass);
        Ids ids = {7}, plain = {7}, offsets;
        std::vector<tokenize::TokenSpan> spans;
        encoder->encode_with_spans(text, ids, spans);
        encoder->encode(text, plain);
        CHECK(ids == plain);
        ids.erase(ids.begin());
        for (const tokenize::TokenSpan& span : spans) offsets.insert(offsets.end(), {span.begin, span.end});
        CHECK(ids == one["ids"][i].get<Ids>());
        CHECK(offsets == one["offsets"][i].get<Ids>());
      }
    }
  }

 private:
  nlohmann::json file_;
};

}  // namespace bert_hpc::test
