// WordPiece as one of the kinds of tokenizers, in the layouts of BERT and MPNet, and its files.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"
#include "json_member.hpp"
#include "tokenizer_document.hpp"
#include "wordpiece_json.hpp"

namespace bert_hpc::tokenize {
namespace {

class WordPieceTokenizer final : public Tokenizer {
 public:
  WordPieceTokenizer(TokenizerParts parts, const std::string& source)
      : form_(form_of(parts.settings)),
        hash_(tokenize::vocabulary_hash(parts)),
        vocabulary_(std::move(parts.vocabulary), source, wordpiece_layout(parts.sections)),
        added_(std::move(parts.added)),
        tokens_(vocabulary_.pieces()) {
    if (added_.empty() && !layout().of_roberta) return;
    for (const AddedToken& token : added_) {
      if (token.id == std::ssize(tokens_)) tokens_.push_back(token.content);
    }
    split_.emplace(with_special_tokens(vocabulary_, added_), form_);
  }

  const TokenizerKind& kind() const override { return wordpiece_kind(); }
  const std::vector<std::string>& tokens() const override { return tokens_; }
  const SpecialIds& special_ids() const override { return vocabulary_.special(); }
  const SequenceTemplate& sequence() const override { return layout().sequence(); }
  const std::string& vocabulary_hash() const override { return hash_; }
  TokenizerSettings settings() const override { return settings_of(form_); }

  TokenizerSpec spec() const override {
    std::string text = tokenizer_json_text(vocabulary_, form_, added_);
    std::string hash = core::hash_of_lines({text});
    return {std::move(text), std::move(hash)};
  }

  std::unique_ptr<TextEncoder> encoder() const override {
    return std::make_unique<WordPieceEncoder>(vocabulary_, form_, split_ ? &*split_ : nullptr);
  }

  std::vector<File> files(std::int64_t max_tokens) const override {
    nlohmann::json config = {{"tokenizer_class", layout().usual_class}, {"model_max_length", max_tokens}};
    for (const SpecialRole& role : special_roles) config[std::string(role.name) + "_token"] = layout().token(role.id);
    if (layout().of_roberta) {
      config["bos_token"] = layout().token(&SpecialIds::cls);
      config["eos_token"] = layout().token(&SpecialIds::sep);
    }
    for (const TextFormField& field : text_form_fields) config[field.hugging_face_name] = form_.*field.value;
    if (!added_.empty()) config["added_tokens_decoder"] = added_tokens_decoder(vocabulary_, added_);
    return {{"vocab.txt", vocabulary_.text()},
            {"tokenizer_config.json", core::json_text(config, 2) + "\n"},
            {"tokenizer.json", tokenizer_json_text(vocabulary_, form_, added_)}};
  }

 private:
  const WordPieceLayout& layout() const { return vocabulary_.layout(); }

  TextForm form_;
  std::string hash_;
  Vocabulary vocabulary_;
  std::vector<AddedToken> added_;
  std::vector<std::string> tokens_;   // the pieces and the added tokens that are none
  std::optional<AddedTokens> split_;  // if there are added tokens or the mask takes blanks
};

std::unique_ptr<Tokenizer> make(TokenizerParts parts, const std::string& source) {
  return std::make_unique<WordPieceTokenizer>(std::move(parts), source);
}

std::unique_ptr<VocabularyTrainer> trainer(const TokenizerSettings& settings, bool) {
  return std::make_unique<WordPieceTrainer>(form_of(settings));
}

TokenizerParts read_lines(const std::string& path) {
  return {.vocabulary = Vocabulary::lines_of(path)};
}

void read_own_files(const std::string& file, const ConfigFile&, TokenizerParts& parts, std::vector<std::string>&) {
  parts.vocabulary = Vocabulary::lines_of(file);
}

/// Whether it holds the tokens around a text of any layout.
std::string vocabulary_problem(const std::string&, const std::string& text) {
  std::string known;
  for (const WordPieceLayout* layout : wordpiece_layouts()) {
    const std::string first = layout->token(&SpecialIds::cls), last = layout->token(&SpecialIds::sep);
    if (text.find(first) != std::string::npos && text.find(last) != std::string::npos) return {};
    known += (known.empty() ? "" : " or ") + first + " and " + last;
  }
  return "no WordPiece vocabulary, which has " + known;
}

/// The text of a token, which is a string or an object with its content; "" of anything else.
std::string token_text(const nlohmann::json& token) {
  if (token.is_string()) return token.get<std::string>();
  const nlohmann::json& content = member(token, "content");
  return content.is_string() ? content.get<std::string>() : "";
}

/// The layout with the file's token for the begin of a sequence, or of its class; without either that of the model.
const WordPieceLayout& layout_of(const ConfigFile& config) {
  const nlohmann::json &cls = member(config.json, "cls_token"), &own_class = member(config.json, "tokenizer_class");
  const std::string model_type = model_type_of(std::filesystem::path(config.path).parent_path().string());
  for (const WordPieceLayout* layout : wordpiece_layouts()) {
    const bool is_named = !cls.is_null()          ? token_text(cls) == layout->token(&SpecialIds::cls)
                          : own_class.is_string() ? own_class == layout->usual_class
                                                  : model_type == layout->model_type;
    if (is_named) return *layout;
  }
  return bert_layout();
}

/// Special tokens that the file names otherwise than its layout are problems.
void read_config(const ConfigFile& config, TokenizerParts& parts, std::vector<std::string>& problems) {
  const WordPieceLayout& layout = layout_of(config);
  parts.sections = layout.name;
  for (const SpecialRole& role : special_roles) {
    const std::string name = std::string(role.name) + "_token", known = layout.token(role.id);
    const nlohmann::json& token = member(config.json, name.c_str());
    if (token.is_null() || token_text(token) == known) continue;
    problems.push_back(config.path + ": " + name + " is " + core::printable(token.dump(), 80) +
                       "; this version reads only \"" + known + "\".");
  }
}

std::span<const char* const> implied_tokens(const TokenizerParts& parts) {
  return wordpiece_layout(parts.sections).tokens;
}

constexpr const char* lowercase = text_form_fields[0].name;
constexpr const char* strip_accents = text_form_fields[1].name;

/// Accents go with the case (Hugging Face's `strip_accents = null`).
void complete(TokenizerSettings& known) {
  const auto found = known.find(lowercase);
  if (found != known.end()) known.try_emplace(strip_accents, found->second);
}

std::pair<std::string, std::string> contradiction(const TokenizerSettings& settings) {
  const TextForm form = form_of(settings);
  if (form.lowercase || !form.strip_accents) return {};
  return {strip_accents,
          "it is true and lowercase is false, but accents are removed from lower-cased text only. Set strip_accents = "
          "false for a vocabulary with accents, or lowercase = true."};
}

std::string doubt(const std::vector<std::string>& vocabulary, const TokenizerSettings& assumed) {
  constexpr double least_cased = 0.1;  // of a vocabulary's words: between BERT-base's 0 (uncased) and 0.36 (cased)
  const double share = assumed.contains(lowercase) ? capital_share(vocabulary) : 0;
  if (share < least_cased) return "";
  return core::format_number(100 * share, 2) +
         "% of the vocabulary's words contain capital letters, and lower-cased text has none: [tokenizer] lowercase = "
         "false is probably right. The default is true; set it to keep it without this warning.";
}

}  // namespace

TextForm form_of(const TokenizerSettings& settings) {
  const TokenizerSettings all = resolved(wordpiece_kind(), settings);
  TextForm form;
  for (const TextFormField& field : text_form_fields) form.*field.value = all.at(field.name);
  return form;
}

TokenizerSettings settings_of(const TextForm& form) {
  TokenizerSettings settings;
  for (const TextFormField& field : text_form_fields) settings[field.name] = form.*field.value;
  return settings;
}

const TokenizerKind& wordpiece_kind() {
  static const TokenizerKind kind = [] {
    TokenizerKind made;
    made.name = "wordpiece";
    made.model_type = "WordPiece";
    made.title = "WordPiece";
    made.usual_class = bert_layout().usual_class;
    made.sequence = bert_layout().sequence();
    const auto &lower = text_form_fields[0], &strips = text_form_fields[1], &ideographs = text_form_fields[2];
    made.keys = {{lower.name, lower.hugging_face_name, uncased.lowercase, true},
                 {strips.name, strips.hugging_face_name, uncased.strip_accents},
                 {ideographs.name, ideographs.hugging_face_name, uncased.tokenize_chinese_chars, true}};
    made.own_files = {"vocab.txt"};
    made.own_file_problem = vocabulary_problem;
    made.implied_tokens = implied_tokens;
    made.complete = complete;
    made.contradiction = contradiction;
    made.doubt = doubt;
    made.continues_word = [](std::string_view token) { return token.starts_with("##"); };
    made.make = make;
    made.trainer = trainer;
    made.read_own_files = read_own_files;
    made.read_file = read_lines;
    made.read_config = read_config;
    made.read_json = read_wordpiece_json;
    return made;
  }();
  return kind;
}

}  // namespace bert_hpc::tokenize
