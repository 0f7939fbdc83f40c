// WordPiece as one of the kinds of tokenizers: [CLS] a [SEP] and [CLS] a [SEP] b [SEP] of BERT, and its files.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"
#include "wordpiece_json.hpp"

namespace bert_hpc::tokenize {
namespace {

class WordPieceTokenizer final : public Tokenizer {
 public:
  WordPieceTokenizer(Vocabulary vocabulary, std::vector<AddedToken> added, const TextForm& form)
      : vocabulary_(std::move(vocabulary)),
        added_(std::move(added)),
        form_(form),
        tokens_(vocabulary_.pieces()),
        hash_(tokenize::vocabulary_hash(vocabulary_.pieces(), added_)) {
    if (added_.empty()) return;
    for (const AddedToken& token : added_) {
      if (token.id == std::ssize(tokens_)) tokens_.push_back(token.content);
    }
    std::vector<AddedToken> all = added_;
    for (const SpecialRole& role : special_roles) {
      all.push_back({.content = special_token_name(role.id), .id = vocabulary_.special().*role.id, .special = true});
    }
    split_.emplace(std::move(all), form);
  }

  const TokenizerKind& kind() const override { return wordpiece_kind(); }
  const std::vector<std::string>& tokens() const override { return tokens_; }
  const SpecialIds& special_ids() const override { return vocabulary_.special(); }
  const std::string& vocabulary_hash() const override { return hash_; }

  std::vector<std::pair<std::string, bool>> settings() const override {
    std::vector<std::pair<std::string, bool>> all;
    for (const TextFormField& field : text_form_fields) all.emplace_back(field.name, form_.*field.value);
    return all;
  }

  std::unique_ptr<TextEncoder> encoder() const override {
    return std::make_unique<WordPieceEncoder>(vocabulary_, form_, split_ ? &*split_ : nullptr);
  }

  std::vector<File> files(std::int64_t max_tokens) const override {
    nlohmann::json config = {{"tokenizer_class", "BertTokenizer"}, {"model_max_length", max_tokens}};
    for (const SpecialRole& role : special_roles) {
      config[std::string(role.name) + "_token"] = special_token_name(role.id);
    }
    for (const TextFormField& field : text_form_fields) config[field.hugging_face_name] = form_.*field.value;
    if (!added_.empty()) config["added_tokens_decoder"] = added_tokens_decoder(vocabulary_, added_);
    return {{"vocab.txt", vocabulary_.text()},
            {"tokenizer_config.json", core::json_text(config, 2) + "\n"},
            {"tokenizer.json", tokenizer_json_text(vocabulary_, form_, added_)}};
  }

 private:
  Vocabulary vocabulary_;
  std::vector<AddedToken> added_;
  TextForm form_;
  std::vector<std::string> tokens_;  // the pieces and the added tokens that are none
  std::string hash_;
  std::optional<AddedTokens> split_;  // if there are added tokens
};

std::unique_ptr<Tokenizer> make(std::vector<std::string> pieces, std::vector<AddedToken> added, const TextForm& form,
                                const std::string& source) {
  return std::make_unique<WordPieceTokenizer>(Vocabulary(std::move(pieces), source), std::move(added), form);
}

std::unique_ptr<Tokenizer> load(const std::string& file, const TextForm& form) {
  return std::make_unique<WordPieceTokenizer>(Vocabulary::load(file), std::vector<AddedToken>(), form);
}

std::unique_ptr<VocabularyTrainer> trainer(const TextForm& form) {
  return std::make_unique<WordPieceTrainer>(form);
}

}  // namespace

const char* special_token_name(std::int32_t SpecialIds::*role) {
  std::size_t at = 0;
  while (special_roles[at].id != role) ++at;
  return special_token_names[at];
}

const TokenizerKind& wordpiece_kind() {
  static const TokenizerKind kind{.name = "wordpiece",
                                  .model_type = "WordPiece",
                                  .sequence = {.before = {&SpecialIds::cls},
                                               .after = {&SpecialIds::sep},
                                               .between = {&SpecialIds::sep},
                                               .after_pair = {&SpecialIds::sep},
                                               .between_type = 0,
                                               .second_type = 1},
                                  .make = make,
                                  .load = load,
                                  .trainer = trainer,
                                  .read_json = read_wordpiece_json};
  return kind;
}

}  // namespace bert_hpc::tokenize
