// BPE with "▁" as one of the kinds of tokenizers: those of mmBERT, Gemma and Llama 2, from tokenizer.json.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/tokenize/metaspace_bpe.hpp"
#include "json_sections.hpp"
#include "metaspace_bpe_json.hpp"
#include "model_types.hpp"
#include "role_tokens.hpp"

namespace bert_hpc::tokenize {
namespace {

class MetaspaceBpeTokenizer final : public Tokenizer {
 public:
  MetaspaceBpeTokenizer(TokenizerParts parts, const std::string& source) : parts_(std::move(parts)) {
    if (parts_.sections.empty()) {
      throw core::Error(core::ExitCode::data, source + ": this kind of BPE needs its tokenizer.json.");
    }
    form_ = metaspace_bpe_form_of(parts_.sections);
    roles_ = role_tokens(parts_, form_.text.single, form_.text.pair, source);
    if (roles_.special.unk < 0 && !form_.unknown.empty()) roles_.special.unk = roles_.id_of(form_.unknown);
    add_role_tokens(roles_, parts_);
    hash_ = tokenize::vocabulary_hash(parts_);
    make_model(source);
    tokens_ = std::make_unique<SearchedTokens>(parts_.added, model_.marks);
  }

  const TokenizerKind& kind() const override { return metaspace_bpe_kind(); }
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

  std::unique_ptr<TextEncoder> encoder() const override {
    return std::make_unique<MetaspaceBpeEncoder>(model_, *tokens_);
  }

  std::vector<File> files(std::int64_t max_tokens) const override {
    const nlohmann::json config = config_of(roles_, parts_.added, "PreTrainedTokenizerFast", max_tokens);
    return {{"tokenizer_config.json", core::json_text(config, 2) + "\n"}, {"tokenizer.json", json_text()}};
  }

 private:
  std::string json_text() const { return metaspace_bpe_json_text(parts_, form_, roles_.layout, roles_.special); }

  /// The model knows the tokens of model.vocab only; a token that was added behind them is none of its own.
  void make_model(const std::string& source) {
    const auto in_vocabulary = [&](const std::string& token) {
      const std::int32_t id = roles_.id_of(token);
      return id < std::ssize(parts_.vocabulary) ? id : -1;
    };
    model_.marks = marks_of(form_.text, source);
    if (!form_.unknown.empty()) model_.unknown = in_vocabulary(form_.unknown);
    model_.fuses_unknown = form_.fuse_unk;
    model_.falls_back = form_.byte_fallback;
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
      model_.byte_ids[static_cast<std::size_t>(byte)] = in_vocabulary(name);
    }
    set_merges(parts_.vocabulary, merge_ids(parts_.merges, roles_.ids, parts_.vocabulary.size(), source), model_);
    model_.has_whole_words = form_.ignore_merges;
    if (!form_.ignore_merges) return;
    std::size_t bytes = 0;
    for (const std::string& token : parts_.vocabulary) bytes += token.size();
    if (bytes >= ByteTrie::largest) {
      throw core::Error(core::ExitCode::data, source + ": its vocabulary is too long: more than 16 MiB.");
    }
    model_.whole_words = ByteTrie(bytes);
    for (std::size_t id = 0; id < parts_.vocabulary.size(); ++id) {
      if (!parts_.vocabulary[id].empty()) {
        model_.whole_words.insert(0, parts_.vocabulary[id], static_cast<std::int32_t>(id));
      }
    }
  }

  TokenizerParts parts_;
  MetaspaceBpeForm form_;
  RoleTokens roles_;
  std::string hash_;
  MetaspaceBpeModel model_;
  std::unique_ptr<SearchedTokens> tokens_;
};

std::unique_ptr<Tokenizer> make_metaspace_bpe(TokenizerParts parts, const std::string& source) {
  return std::make_unique<MetaspaceBpeTokenizer>(std::move(parts), source);
}

}  // namespace

const TokenizerKind& metaspace_bpe_kind() {
  static const TokenizerKind kind = [] {
    TokenizerKind made;
    made.name = "metaspace_bpe";
    made.model_type = metaspace_bpe_model;
    made.title = metaspace_bpe_model;
    made.usual_class = "";  // all of tokenizer.json counts
    made.sequence = roberta_sequence();
    made.continues_word = [](std::string_view token) {
      return !token.starts_with(word_mark) && token.find_first_of(" \t\n\r") != 0;
    };
    made.make = make_metaspace_bpe;
    made.read_config = read_special_token_names;
    made.read_json = read_metaspace_bpe_json;
    return made;
  }();
  return kind;
}

}  // namespace bert_hpc::tokenize
