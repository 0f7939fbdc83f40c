// Unigram as one of the kinds of tokenizers: those of XLM-RoBERTa, CamemBERT and multilingual models of
// sentence-transformers, from tokenizer.json.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/unigram.hpp"
#include "byte_bpe_json.hpp"
#include "character_map.hpp"
#include "json_sections.hpp"
#include "unigram_json.hpp"

namespace bert_hpc::tokenize {
namespace {

using core::Error;
using core::ExitCode;

constexpr const char* eos_role = "eos";  // as in "eos_token"
constexpr double unknown_penalty = 10;   // below the least score, as SentencePiece's kUnkPenalty

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw Error(ExitCode::data, source + ": " + what);
}

class UnigramTokenizer final : public Tokenizer {
 public:
  UnigramTokenizer(TokenizerParts parts, const std::string& source) : parts_(std::move(parts)) {
    if (parts_.sections.empty()) refuse(source, "a Unigram tokenizer needs its tokenizer.json.");
    form_ = unigram_form_of(parts_.sections);
    if (form_.scores.size() != parts_.vocabulary.size()) refuse(source, "its pieces and scores do not fit.");
    std::string problem;
    const auto found = template_of(form_.single, form_.pair, problem);
    if (!found) refuse(source, "its post_processor " + problem);
    template_ = *found;
    tokens_ = parts_.vocabulary;
    for (std::size_t id = 0; id < tokens_.size(); ++id) ids_[tokens_[id]] = static_cast<std::int32_t>(id);
    for (const AddedToken& token : parts_.added) {
      ids_.emplace(token.content, token.id);
      if (token.id == std::ssize(tokens_)) tokens_.push_back(token.content);
    }
    find_special(source);
    add_special();
    hash_ = tokenize::vocabulary_hash(parts_);
    make_model(source);
    added_ = std::make_unique<AddedTokens>(parts_.added, std::nullopt);
  }

  const TokenizerKind& kind() const override { return unigram_kind(); }
  const std::vector<std::string>& tokens() const override { return tokens_; }
  const SpecialIds& special_ids() const override { return special_; }
  const SequenceTemplate& sequence() const override { return template_.sequence; }
  std::int32_t text_end() const override { return text_end_; }
  const std::string& vocabulary_hash() const override { return hash_; }
  TokenizerSettings settings() const override { return {}; }

  TokenizerSpec spec() const override {
    const std::string text = json_text();
    return {text, core::hash_of_lines({text})};
  }

  std::unique_ptr<TextEncoder> encoder() const override { return std::make_unique<UnigramEncoder>(model_, *added_); }

  std::vector<File> files(std::int64_t max_tokens) const override {
    nlohmann::json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                             {"model_max_length", max_tokens},
                             {"added_tokens_decoder", added_tokens_decoder(parts_.added)}};
    const auto name = [&](const char* role, std::int32_t id) {
      if (id >= 0) config[std::string(role) + "_token"] = tokens_.at(static_cast<std::size_t>(id));
    };
    for (const SpecialRole& role : special_roles) name(role.name, special_.*role.id);
    name("bos", special_.cls >= 0 ? special_.cls : text_end_);
    name(eos_role, text_end_);
    return {{"tokenizer_config.json", core::json_text(config, 2) + "\n"}, {"tokenizer.json", json_text()}};
  }

 private:
  std::string json_text() const {
    std::vector<std::pair<std::string, std::int32_t>> ids;
    for (const auto& [token, id] : {std::pair(template_.cls, special_.cls), std::pair(template_.sep, special_.sep)}) {
      if (!token.empty()) ids.emplace_back(token, id);
    }
    return unigram_json_text(parts_, form_, ids);
  }

  std::int32_t id_of(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }

  /// The tokens of the roles: of the template, as tokenizer_config.json states, or of the usual names.
  void find_special(const std::string& source) {
    const auto& stated = parts_.special_tokens;
    for (const SpecialRole& role : special_roles) {
      std::int32_t& id = special_.*role.id;
      const auto given = stated.find(role.name);
      if (given != stated.end()) {
        id = id_of(given->second);
        if (id < 0) {
          refuse(source, std::string(role.name) + "_token is \"" + core::printable(given->second, 80) +
                             "\" in tokenizer_config.json, which the vocabulary lacks.");
        }
      } else if (role.id != &SpecialIds::cls && role.id != &SpecialIds::sep) {
        id = id_of(roberta_token(role.id).content);
      }
    }
    if (special_.unk < 0) special_.unk = form_.unknown;
    for (const auto& [token, id] :
         {std::pair(&template_.cls, &special_.cls), std::pair(&template_.sep, &special_.sep)}) {
      if (token->empty()) continue;
      *id = id_of(*token);
      if (*id < 0) {
        refuse(source,
               "its post_processor has the token \"" + core::printable(*token, 80) + "\", which the vocabulary lacks.");
      }
    }
    const auto stated_end = stated.find(eos_role);
    text_end_ = stated_end != stated.end() ? id_of(stated_end->second) : special_.sep;
  }

  /// Special tokens are found in text, whether files list them as added tokens or not.
  void add_special() {
    for (const SpecialRole& role : special_roles) {
      const std::int32_t id = special_.*role.id;
      const auto has_id = [&](const AddedToken& token) { return token.id == id; };
      if (id < 0 || std::any_of(parts_.added.begin(), parts_.added.end(), has_id)) continue;
      parts_.added.push_back({.content = tokens_[static_cast<std::size_t>(id)], .id = id, .special = true});
    }
    std::stable_sort(parts_.added.begin(), parts_.added.end(),
                     [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  }

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
      model_.byte_ids[static_cast<std::size_t>(byte)] = id_of(name);
    }
    model_.steps = form_.steps;
    std::string problem;
    const auto map = base64_bytes(form_.character_map);
    model_.map = std::make_shared<CharacterMap>(map.value_or(""), problem);
    if (!map || !problem.empty()) refuse(source, "its precompiled_charsmap is damaged.");
    model_.splits_blanks = form_.splits_blanks;
    model_.splits_marks = form_.splits_marks;
    model_.mark = form_.mark;
  }

  TokenizerParts parts_;
  UnigramForm form_;
  TokenTemplate template_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
  SpecialIds special_;
  std::int32_t text_end_ = -1;
  std::string hash_;
  UnigramModel model_;
  std::unique_ptr<AddedTokens> added_;
};

std::unique_ptr<Tokenizer> make_unigram(TokenizerParts parts, const std::string& source) {
  return std::make_unique<UnigramTokenizer>(std::move(parts), source);
}

void read_no_files(const std::string&, TokenizerParts&) {}

}  // namespace

const TokenizerKind& unigram_kind() {
  static const TokenizerKind kind = [] {
    TokenizerKind made;
    made.name = "unigram";
    made.model_type = "Unigram";
    made.title = "Unigram";
    made.usual_class = "";  // all of tokenizer.json counts
    made.sequence = roberta_sequence();
    made.make = make_unigram;
    made.read_own_files = read_no_files;
    made.read_config = read_special_token_names;
    made.read_json = read_unigram_json;
    return made;
  }();
  return kind;
}

}  // namespace bert_hpc::tokenize
