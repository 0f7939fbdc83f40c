// Byte-level BPE as one of the kinds of tokenizers: GPT-2's, without a template, RoBERTa's and others of that kind.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/tokenize/byte_bpe.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "bpe_json.hpp"
#include "byte_bpe_json.hpp"
#include "json_sections.hpp"
#include "role_tokenizer.hpp"

namespace bert_hpc::tokenize {
namespace {

using core::Error;
using core::ExitCode;

constexpr std::string_view blanks = " \t\n\r";

[[noreturn]] void fail(const std::string& source, const std::string& what) {
  throw Error(ExitCode::data, source + ": " + what);
}

std::string token_in_quotes(const std::string& token) {
  return '"' + core::printable(token, 80) + '"';
}

/// Words begin with a blank, as the vocabulary spells it.
bool continues_word(std::string_view token) {
  return std::none_of(blanks.begin(), blanks.end(), [&](char blank) {
    return token.starts_with(printable_bytes({&blank, 1}));
  });
}

class ByteBpeTokenizer final : public RoleTokenizer {
 public:
  ByteBpeTokenizer(TokenizerParts parts, const std::string& source)
      : RoleTokenizer(std::move(parts)), form_(byte_bpe_form_of(parts_.sections)) {
    roles_ = role_tokens(parts_, form_.single, form_.pair, source);
    parts_.settings = resolved(byte_bpe_kind(), parts_.settings);
    // GPT-2's only special token has these roles too.
    const std::int32_t end = roles_.id_of(end_of_text);
    if (roles_.special.unk < 0) roles_.special.unk = end;
    if (roles_.text_end < 0) roles_.text_end = end;
    finish_roles();
    find_bytes(source);
    find_merges(source);
    measure_tokens();
    model_.pattern = form_.pattern;
    model_.add_prefix_space = parts_.settings.at(add_prefix_space_key);
    model_.trim_offsets = parts_.settings.at(trim_offsets_key);
    model_.trimming_expects_prefix = form_.trimming_expects_prefix.value_or(model_.add_prefix_space);
    added_ = std::make_unique<AddedTokens>(parts_.added, std::nullopt, form_.composes);
  }

  const TokenizerKind& kind() const override { return byte_bpe_kind(); }
  TokenizerSettings settings() const override { return parts_.settings; }

  TokenizerSpec spec() const override {
    // Switches that an input may choose are left out of the hash: they are no other tokenizer.
    TokenizerParts usual = parts_;
    for (const TokenizerKey& key : byte_bpe_kind().keys) usual.settings[key.name] = key.usual;
    ByteBpeForm form = form_;
    form.trimming_expects_prefix.reset();
    return {json_text(), core::hash_of_lines({json_text(usual, form)})};
  }

  std::unique_ptr<TextEncoder> encoder() const override { return std::make_unique<ByteBpeEncoder>(model_, *added_); }

  std::vector<File> files(std::int64_t max_tokens) const override {
    // Classes of their own in Transformers have one pattern and one template, and their mask takes no blanks.
    const auto takes_blanks = [](const AddedToken& token) { return token.lstrip || token.rstrip; };
    const bool plain = form_.pattern == WordPattern::gpt2 && !form_.ignore_merges && !form_.composes &&
                       std::none_of(parts_.added.begin(), parts_.added.end(), takes_blanks);
    const bool roberta = plain && roles_.layout.sequence == roberta_sequence();
    nlohmann::json config =
        config_of(roles_, parts_.added, roberta ? byte_bpe_kind().usual_class : "PreTrainedTokenizerFast", max_tokens);
    for (const TokenizerKey& key : byte_bpe_kind().keys) config[key.hugging_face_name] = parts_.settings.at(key.name);
    std::vector<File> files = {{"tokenizer_config.json", core::json_text(config, 2) + "\n"},
                               {"tokenizer.json", json_text()}};
    if (form_.pattern != WordPattern::gpt2 || form_.composes) return files;  // older files do not state this
    std::string merges = "#version: 0.2\n";
    for (const std::string& merge : parts_.merges) merges += merge + '\n';
    files.push_back({"vocab.json", vocabulary_json_text(parts_.vocabulary)});
    files.push_back({"merges.txt", std::move(merges)});
    return files;
  }

 private:
  std::string json_text() const override { return json_text(parts_, form_); }
  std::string json_text(const TokenizerParts& parts, const ByteBpeForm& form) const {
    return byte_bpe_json_text({.parts = parts, .form = form, .tokens = roles_.layout, .ids = roles_.special});
  }

  void find_bytes(const std::string& source) {
    int missing = 0, first = 0;
    for (int byte = 255; byte >= 0; --byte) {
      const char own = static_cast<char>(byte);
      const std::int32_t id = roles_.id_of(printable_bytes({&own, 1}));
      model_.byte_ids[static_cast<std::size_t>(byte)] = id;
      if (id >= 0) continue;
      ++missing;
      first = byte;
    }
    if (missing == 0) return;
    const char own = static_cast<char>(first);
    fail(source, "the vocabulary lacks " + std::to_string(missing) + " of the 256 bytes, the first one being " +
                     std::to_string(first) + " (" + token_in_quotes(printable_bytes({&own, 1})) +
                     "); a byte-level vocabulary has a token for each.");
  }

  void find_merges(const std::string& source) {
    const auto is_added = [&](std::size_t id) {
      return std::any_of(parts_.added.begin(), parts_.added.end(),
                         [&](const AddedToken& token) { return token.id == static_cast<std::int32_t>(id); });
    };
    if (parts_.merges.empty()) {
      for (std::size_t id = 0; id < parts_.vocabulary.size(); ++id) {
        if (count_characters(parts_.vocabulary[id]) < 2 || is_added(id)) continue;
        fail(source, "there are no merges, but the vocabulary has tokens of several bytes, such as " +
                         token_in_quotes(parts_.vocabulary[id]) + "; BPE needs its merges (merges.txt).");
      }
    }
    model_.merges = merge_table(merge_ids(parts_.merges, roles_.ids, roles_.tokens.size(), source));
  }

  void measure_tokens() {
    std::size_t all_bytes = 0;
    for (const std::string& token : roles_.tokens) {
      std::string bytes;
      const bool is_text = append_bytes_of(token, bytes);
      model_.sizes.push_back(is_text ? static_cast<std::int32_t>(bytes.size()) : 0);
      all_bytes += bytes.size();
      model_.blanks.push_back(blanks_of(token));
    }
    model_.has_whole_words = form_.ignore_merges;
    if (!form_.ignore_merges) return;
    model_.whole_words = ByteTrie(all_bytes);
    for (std::size_t id = 0; id < parts_.vocabulary.size(); ++id) {
      std::string bytes;
      const bool is_text = append_bytes_of(roles_.tokens[id], bytes) && bytes.find('\0') == std::string::npos;
      if (is_text && !bytes.empty()) model_.whole_words.insert(0, bytes, static_cast<std::int32_t>(id));
    }
  }

  ByteBpeForm form_;
  ByteBpeModel model_;
  std::unique_ptr<AddedTokens> added_;
};

std::unique_ptr<Tokenizer> make_byte_bpe(TokenizerParts parts, const std::string& source) {
  return std::make_unique<ByteBpeTokenizer>(std::move(parts), source);
}

std::unique_ptr<VocabularyTrainer> byte_bpe_trainer(const TokenizerSettings& settings, bool ends_texts) {
  return std::make_unique<ByteBpeTrainer>(settings, ends_texts);
}

/// Without a tokenizer.json: RoBERTa's tokenizer or GPT-2's, by the special tokens of the vocabulary.
void read_vocabulary_and_merges(const std::string& vocabulary, const ConfigFile&, TokenizerParts& parts,
                                std::vector<std::string>&) {
  const std::string merges = std::filesystem::path(vocabulary).replace_filename("merges.txt").string();
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(merges, ignored)) {
    throw Error(ExitCode::files, merges + ": is missing; a BPE tokenizer needs it beside vocab.json.");
  }
  constexpr std::int64_t longest_merges = std::int64_t{64} << 20;  // bytes
  TokenizerDocument document = read_vocabulary_document(vocabulary);
  std::string problem;
  parts.vocabulary = pieces_of(document, problem);
  if (!problem.empty()) throw Error(ExitCode::data, vocabulary + ": " + problem.substr(problem.find(' ') + 1));
  std::vector<std::string> lines = core::split_lines(core::read_text_file(merges, longest_merges));
  if (!lines.empty() && lines.front().starts_with("#version")) lines.erase(lines.begin());
  std::erase(lines, "");
  parts.merges = std::move(lines);
  const auto has = [&](const std::string& token) {
    return std::find(parts.vocabulary.begin(), parts.vocabulary.end(), token) != parts.vocabulary.end();
  };
  const bool roberta = has(roberta_token(&SpecialIds::cls).content) && has(roberta_token(&SpecialIds::sep).content);
  ByteBpeForm form;
  if (roberta) form = roberta_form();
  parts.sections = text_of(form);
  parts.settings.try_emplace(add_prefix_space_key, false);
  parts.settings.try_emplace(trim_offsets_key, roberta);
  if (has(end_of_text)) parts.added.push_back({.content = end_of_text, .special = true});
}

/// Whether each line is a pair of tokens, but for a first one with a version.
bool is_merges(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  for (bool first = true; std::getline(lines, line); first = false) {
    if ((first && line.starts_with("#version")) || line.empty() || line == "\r") continue;
    const std::size_t blank = line.find(' ');
    if (blank == std::string::npos || blank == 0 || blank + 1 == line.size()) return false;
    if (line.find(' ', blank + 1) != std::string::npos) return false;
  }
  return !text.empty();
}

/// Checks merges.txt alone: the caller parses vocab.json, as every JSON file.
std::string merges_problem(const std::string& name, const std::string& text) {
  return name != "merges.txt" || is_merges(text) ? "" : "no list of merges, a pair a line";
}

}  // namespace

const TokenizerKind& byte_bpe_kind() {
  static const TokenizerKind kind = [] {
    TokenizerKind made;
    made.name = "byte_bpe";
    made.model_type = "BPE";
    made.title = "byte-level BPE";
    made.usual_class = "RobertaTokenizer";
    made.sequence = roberta_sequence();
    TokenizerKey prefix{add_prefix_space_key, add_prefix_space_key, false, false},
        trim{trim_offsets_key, trim_offsets_key, true};
    prefix.is_choice = trim.is_choice = true;
    prefix.for_words = true;
    made.keys = {prefix, trim};
    made.knows_all_text = true;
    made.own_files = {"vocab.json", "merges.txt"};
    made.own_file_problem = merges_problem;
    made.continues_word = continues_word;
    made.make = make_byte_bpe;
    made.trainer = byte_bpe_trainer;
    made.read_own_files = read_vocabulary_and_merges;
    made.read_config = read_special_token_names;
    made.read_json = read_byte_bpe_json;
    return made;
  }();
  return kind;
}

}  // namespace bert_hpc::tokenize
