// Letters as one of the kinds of tokenizers: a token for each letter of a molecule's sequence, as in ESM, whose
// vocabulary is a file of a few lines. At each position the longest token of the vocabulary counts; what lies between
// tokens and blanks is one unknown token. The same ids as those of Transformers' EsmTokenizer.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/byte_words.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"
#include "bert_hpc/tokenize/vocabulary_trainer.hpp"
#include "json_sections.hpp"
#include "letters_json.hpp"
#include "role_tokenizer.hpp"

namespace bert_hpc::tokenize {
namespace {

using core::Error;
using core::ExitCode;

constexpr const char *usual_cls = "<cls>", *usual_eos = "<eos>", *usual_class = "EsmTokenizer";

struct LettersModel {
  ByteTrie tokens;
  std::int32_t unknown = -1;
};

/// Calls on_token(id, begin, end) for each token of well-formed text, with its bytes.
template <class OnToken>
void each_token(const LettersModel& model, std::string_view text, const OnToken& on_token) {
  std::size_t unknown = text.size();  // where unknown letters begin; the text's size: there are none
  const auto end_unknown = [&](std::size_t end) {
    if (unknown < end) on_token(model.unknown, unknown, end);
    unknown = text.size();
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto left = static_cast<int>(std::min(text.size() - at, ByteTrie::largest));
    const ByteTrie::Match match = model.tokens.longest(0, text.data() + at, left);
    const std::size_t blank = match.id >= 0 ? 0 : blank_size(text, at);
    if (match.id >= 0 || blank > 0) end_unknown(at);
    if (match.id >= 0) on_token(match.id, at, at + static_cast<std::size_t>(match.size));
    if (match.id < 0 && blank == 0) unknown = std::min(unknown, at);
    at += match.id >= 0 ? static_cast<std::size_t>(match.size) : blank > 0 ? blank : character_size(text, at);
  }
  end_unknown(text.size());
}

class LettersEncoder final : public TextEncoder {
 public:
  LettersEncoder(const LettersModel& model, const AddedTokens& added) : model_(model), added_(added) {}

  void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
    split(text, [&](std::int32_t id, const char*, const char*) { ids.push_back(id); });
  }

  void encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids,
                         std::vector<TokenSpan>& spans) override {
    const char* at = nullptr;
    std::int32_t characters = 0;
    const auto count_to = [&](const char* end) {
      characters += static_cast<std::int32_t>(count_characters({at, static_cast<std::size_t>(end - at)}));
      at = end;
      return characters;
    };
    split(
        text,
        [&](std::int32_t id, const char* begin, const char* end) {
          ids.push_back(id);
          const std::int32_t first = count_to(begin);
          spans.push_back({first, count_to(end)});
        },
        &at);
  }

  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) override { encode(word, ids); }

 private:
  /// Calls on_token(id, begin, end). *start becomes the begin of the text that these point into.
  template <class OnToken>
  void split(std::string_view text, const OnToken& on_token, const char** start = nullptr) {
    if (!is_valid_utf8(text)) {
      valid_ = valid_utf8(text);
      text = valid_;
    }
    if (start != nullptr) *start = text.data();
    added_.split(
        text, unused_,
        [&](const TextPart& part) {
          each_token(model_, part.text, [&](std::int32_t id, std::size_t begin, std::size_t end) {
            on_token(id, part.text.data() + begin, part.text.data() + end);
          });
        },
        [&](std::int32_t id, const TextPart& part) {
          on_token(id, part.text.data(), part.text.data() + part.text.size());
        });
  }

  const LettersModel& model_;
  const AddedTokens& added_;
  NormalizedText unused_;
  std::string valid_;
};

class LettersTokenizer final : public RoleTokenizer {
 public:
  LettersTokenizer(TokenizerParts parts, const std::string& source) : RoleTokenizer(std::move(parts)) {
    if (parts_.sections.empty()) parts_.sections = text_of(letters_form(usual_cls, usual_eos));
    form_ = letters_form_of(parts_.sections);
    roles_ = role_tokens(parts_, form_.single, form_.pair, source);
    roles_.special.unk = roles_.id_of(form_.unknown);
    model_.unknown = roles_.special.unk;
    if (model_.unknown < 0) {
      throw Error(ExitCode::data, source + ": the vocabulary lacks \"" + core::printable(form_.unknown, 80) +
                                      "\", which stands for letters that it does not have.");
    }
    finish_roles();
    make_model(source);
    added_ = std::make_unique<AddedTokens>(parts_.added, std::nullopt);
  }

  const TokenizerKind& kind() const override { return letters_kind(); }

  std::unique_ptr<TextEncoder> encoder() const override { return std::make_unique<LettersEncoder>(model_, *added_); }

  std::vector<File> files(std::int64_t max_tokens) const override {
    const LettersForm usual = letters_form(roles_.layout.cls, roles_.layout.sep);
    const bool has_own_class = form_.single == usual.single && form_.pair == usual.pair;
    const nlohmann::json config =
        config_of(roles_, parts_.added, has_own_class ? usual_class : "PreTrainedTokenizerFast", max_tokens);
    std::string lines;
    for (const std::string& token : parts_.vocabulary) lines += token + '\n';
    return {{"vocab.txt", std::move(lines)},
            {"tokenizer_config.json", core::json_text(config, 2) + "\n"},
            {"tokenizer.json", json_text()}};
  }

 private:
  std::string json_text() const override { return letters_json_text(parts_, form_, roles_.layout, roles_.special); }

  void make_model(const std::string& source) {
    const auto refuse = [&](std::size_t id, const char* what) {
      throw Error(ExitCode::data, source + ": the token " + std::to_string(id) + ", \"" +
                                      core::printable(parts_.vocabulary[id], 80) + "\", " + what);
    };
    for (std::size_t id = 0; id < parts_.vocabulary.size(); ++id) {
      const std::string& token = parts_.vocabulary[id];
      if (token.empty()) refuse(id, "is empty.");
      if (!is_valid_utf8(token) || token.find('\0') != std::string::npos) refuse(id, "is not UTF-8.");
      for (std::size_t at = 0; at < token.size(); at += character_size(token, at)) {
        if (blank_size(token, at) > 0) refuse(id, "has a blank, at which text is split.");
      }
      if (roles_.id_of(token) != static_cast<std::int32_t>(id)) refuse(id, "is there twice.");
    }
    model_.tokens = vocabulary_trie(source);
  }

  LettersForm form_;
  LettersModel model_;
  std::unique_ptr<AddedTokens> added_;
};

/// Takes the most frequent letters of the text; ESM's special tokens stand at both ends of the vocabulary.
class LettersTrainer final : public VocabularyTrainer {
 public:
  LettersTrainer() : specials_(special_numbers(), std::nullopt) {}

  void read(std::string_view text, WordNumbers& words, std::vector<std::int32_t>& numbers) override {
    if (!is_valid_utf8(text)) {
      valid_ = valid_utf8(text);
      text = valid_;
    }
    const auto on_text = [&](const TextPart& part) {
      for (std::size_t at = 0; at < part.text.size();) {
        const std::size_t size = character_size(part.text, at);
        if (blank_size(part.text, at) == 0) numbers.push_back(words.number_of(part.text.substr(at, size)));
        at += size;
      }
    };
    specials_.split(text, unused_, on_text, [&](std::int32_t number, const TextPart&) { numbers.push_back(number); });
  }

  TrainedVocabulary train(const std::vector<WordCounts::Entry>& words, std::int32_t size) const override {
    if (words.empty()) throw Error(ExitCode::data, "The text has no letters to make a vocabulary of.");
    const std::int64_t room = size - std::ssize(special_roles);
    if (room < 1) {
      throw Error(ExitCode::data, "A letters vocabulary has " + std::to_string(special_roles.size()) +
                                      " special tokens; raise [tokenizer] train_size above it.");
    }
    std::vector<WordCounts::Entry> letters = words;
    std::stable_sort(letters.begin(), letters.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
    if (std::ssize(letters) > room) letters.resize(static_cast<std::size_t>(room));
    TrainedVocabulary trained{.vocabulary = {usual_cls, "<pad>", usual_eos, "<unk>"}};
    for (const WordCounts::Entry& letter : letters) trained.vocabulary.push_back(letter.word);
    trained.vocabulary.emplace_back("<mask>");
    return trained;
  }

 private:
  /// Special tokens that a text may spell out, with the numbers of their roles as ids.
  static std::vector<AddedToken> special_numbers() {
    std::vector<AddedToken> tokens;
    for (std::size_t i = 0; i < special_roles.size(); ++i) {
      AddedToken token = roberta_token(special_roles[i].id);
      if (special_roles[i].id == &SpecialIds::cls) token.content = usual_cls;
      if (special_roles[i].id == &SpecialIds::sep) token.content = usual_eos;
      token.lstrip = false;
      token.id = static_cast<std::int32_t>(i);
      tokens.push_back(std::move(token));
    }
    return tokens;
  }

  AddedTokens specials_;
  NormalizedText unused_;
  std::string valid_;
};

std::vector<std::string> stripped_lines(const std::string& file) {
  std::vector<std::string> lines = Vocabulary::lines_of(file);
  for (std::string& line : lines) line = std::string(core::trimmed(line));
  return lines;
}

TokenizerParts read_lines(const std::string& path) {
  return {.vocabulary = stripped_lines(path)};
}

std::string letters_problem(const std::string&, const std::string& text) {
  const auto has = [&text](const char* token) { return text.find(token) != std::string::npos; };
  if (has(usual_cls) && has(usual_eos)) return {};
  return std::string("no vocabulary of letters, which has ") + usual_cls + " and " + usual_eos;
}

void read_own_files(const std::string& file, const ConfigFile&, TokenizerParts& parts, std::vector<std::string>&) {
  parts.vocabulary = stripped_lines(file);
  const auto name = [&](const char* role, const char* usual) {
    const auto stated = parts.special_tokens.find(role);
    return stated == parts.special_tokens.end() ? usual : stated->second;
  };
  LettersForm form = letters_form(name("cls", usual_cls), name("eos", usual_eos));
  form.unknown = name("unk", "<unk>");
  parts.sections = text_of(form);
}

}  // namespace

const TokenizerKind& letters_kind() {
  static const TokenizerKind kind = [] {
    TokenizerKind made;
    made.name = "letters";
    made.model_type = "WordLevel";
    made.title = "letters";
    made.usual_class = usual_class;
    made.model_family = "esm";
    made.own_files = {"vocab.txt"};
    made.own_file_problem = letters_problem;
    made.sequence.before = {&SpecialIds::cls};
    made.sequence.after = made.sequence.between = made.sequence.after_pair = {&SpecialIds::sep};
    made.continues_word = [](std::string_view) { return false; };
    made.make = [](TokenizerParts parts, const std::string& source) -> std::unique_ptr<Tokenizer> {
      return std::make_unique<LettersTokenizer>(std::move(parts), source);
    };
    made.trainer = [](const TokenizerSettings&, bool) -> std::unique_ptr<VocabularyTrainer> {
      return std::make_unique<LettersTrainer>();
    };
    made.read_own_files = read_own_files;
    made.read_file = read_lines;
    made.read_config = read_special_token_names;
    made.read_json = read_letters_json;
    return made;
  }();
  return kind;
}

}  // namespace bert_hpc::tokenize
