// Unigram as one of the kinds of tokenizers: those of XLM-RoBERTa, CamemBERT and multilingual models of
// sentence-transformers, from tokenizer.json or a SentencePiece model.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/unigram.hpp"
#include "json_sections.hpp"
#include "role_tokens.hpp"
#include "sentencepiece_files.hpp"
#include "unigram_json.hpp"

namespace bert_hpc::tokenize {
namespace {

using core::Error;
using core::ExitCode;

constexpr double unknown_penalty = 10;  // below the least score, as SentencePiece's kUnkPenalty

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw Error(ExitCode::data, source + ": " + what);
}

class UnigramTokenizer final : public Tokenizer {
 public:
  UnigramTokenizer(TokenizerParts parts, const std::string& source) : parts_(std::move(parts)) {
    if (parts_.sections.empty()) refuse(source, "a Unigram tokenizer needs its tokenizer.json.");
    form_ = unigram_form_of(parts_.sections);
    if (form_.scores.size() != parts_.vocabulary.size()) refuse(source, "its pieces and scores do not fit.");
    roles_ = role_tokens(parts_, form_.text.single, form_.text.pair, source);
    if (roles_.special.unk < 0) roles_.special.unk = form_.unknown;
    add_role_tokens(roles_, parts_);
    hash_ = tokenize::vocabulary_hash(parts_);
    make_model(source);
    tokens_ = std::make_unique<SearchedTokens>(parts_.added, model_.marks);
  }

  const TokenizerKind& kind() const override { return unigram_kind(); }
  const std::vector<std::string>& tokens() const override { return roles_.tokens; }
  const SpecialIds& special_ids() const override { return roles_.special; }
  const SequenceTemplate& sequence() const override { return roles_.layout.sequence; }
  std::int32_t text_end() const override { return roles_.text_end; }
  const std::string& vocabulary_hash() const override { return hash_; }
  TokenizerSettings settings() const override { return {}; }

  TokenizerSpec spec() const override {
    const std::string text = json_text();
    return {text, core::hash_of_lines({text})};
  }

  std::unique_ptr<TextEncoder> encoder() const override { return std::make_unique<UnigramEncoder>(model_, *tokens_); }

  std::vector<File> files(std::int64_t max_tokens) const override {
    const nlohmann::json config = config_of(roles_, parts_.added, "PreTrainedTokenizerFast", max_tokens);
    return {{"tokenizer_config.json", core::json_text(config, 2) + "\n"}, {"tokenizer.json", json_text()}};
  }

 private:
  std::string json_text() const { return unigram_json_text(parts_, form_, roles_.layout, roles_.special); }

  void make_model(const std::string& source) {
    std::size_t bytes = 0;
    for (const std::string& piece : parts_.vocabulary) bytes += piece.size();
    if (bytes >= ByteTrie::largest) refuse(source, "its vocabulary is too long: more than 16 MiB.");
    model_.pieces = ByteTrie(bytes);
    for (std::size_t id = 0; id < parts_.vocabulary.size(); ++id) {
      model_.pieces.insert(0, parts_.vocabulary[id], static_cast<std::int32_t>(id));
    }
    model_.scores = form_.scores;
    model_.unknown_score = *std::min_element(form_.scores.begin(), form_.scores.end()) - unknown_penalty;
    model_.unknown = form_.unknown;
    model_.falls_back = form_.byte_fallback;
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
      model_.byte_ids[static_cast<std::size_t>(byte)] = roles_.id_of(name);
    }
    model_.marks = marks_of(form_.text, source);
  }

  TokenizerParts parts_;
  UnigramForm form_;
  RoleTokens roles_;
  std::string hash_;
  UnigramModel model_;
  std::unique_ptr<SearchedTokens> tokens_;
};

std::unique_ptr<Tokenizer> make_unigram(TokenizerParts parts, const std::string& source) {
  return std::make_unique<UnigramTokenizer>(std::move(parts), source);
}

}  // namespace

const TokenizerKind& unigram_kind() {
  static const TokenizerKind kind = [] {
    TokenizerKind made;
    made.name = "unigram";
    made.model_type = "Unigram";
    made.title = "Unigram";
    made.usual_class = "";  // all of tokenizer.json counts
    made.sequence = roberta_sequence();
    made.own_files = {sentencepiece_name};
    made.converts_files = true;
    made.continues_word = [](std::string_view token) { return !token.starts_with("\u2581"); };
    made.make = make_unigram;
    made.read_own_files = read_sentencepiece;
    made.read_config = read_special_token_names;
    made.read_json = read_unigram_json;
    return made;
  }();
  return kind;
}

}  // namespace bert_hpc::tokenize
