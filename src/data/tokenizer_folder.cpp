// Whose settings count is decided as in Transformers 5, tried with 5.23: a class of BERT's kind takes only the
// vocabulary from tokenizer.json, and its settings from tokenizer_config.json or its defaults; a general class takes
// all of tokenizer.json.
#include "bert_hpc/data/tokenizer_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "added_token_files.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"
#include "bounded_json.hpp"
#include "text_settings_json.hpp"

namespace bert_hpc::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t longest_vocabulary = std::int64_t{64} << 20;  // bytes; the largest known have 4 MB
constexpr const char* config_name = "tokenizer_config.json";

std::string quoted(const std::string& text) {
  return '"' + core::printable(text, 80) + '"';
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// tokenizer_config.json; an empty object where there is none.
json read_config(const std::string& file) {
  if (!is_file(file)) return json::object();
  json config = parse_bounded_json(core::read_text_file(file, longest_json));
  if (!config.is_object()) {
    throw core::Error(core::ExitCode::files,
                      file + ": is not a JSON object, or is nested too deeply; write it again or remove it.");
  }
  return config;
}

/// The text of a token, which is a string or an object with its content; "" of anything else.
std::string token_text(const json& token) {
  if (token.is_string()) return token.get<std::string>();
  const auto content = token.is_object() ? token.find("content") : token.end();
  return content != token.end() && content->is_string() ? content->get<std::string>() : "";
}

/// Special tokens that tokenizer_config.json names otherwise than BERT.
void check_tokens(const json& config, const std::string& file, std::vector<std::string>& problems) {
  const auto& known = tokenize::special_token_names;
  for (std::size_t i = 0; i < tokenize::special_roles.size(); ++i) {
    const std::string name = std::string(tokenize::special_roles[i].name) + "_token";
    const auto token = config.find(name);
    if (token == config.end() || token->is_null() || token_text(*token) == known[i]) continue;
    problems.push_back(file + ": " + name + " is " + core::printable(token->dump(), 80) +
                       "; this version reads only \"" + known[i] + "\".");
  }
}

/// The class that Transformers reads the folder with; "" for a general one, which takes all of tokenizer.json.
std::string tokenizer_class(const json& config, const std::string& path) {
  const auto given = config.find("tokenizer_class");
  if (given == config.end() || !given->is_string()) return is_file(path + "/config.json") ? "BertTokenizer" : "";
  const std::string name = core::printable(given->get<std::string>(), 80);
  return name == "TokenizersBackend" || name == "PreTrainedTokenizerFast" ? "" : name;
}

/// Completes folder.text by tokenizer.json, and says where that differs from tokenizer_config.json.
void settle_text(TokenizerFolder& folder, const tokenize::TextForm& form, const std::string& bert_class) {
  const TextSettings of_json = TextSettings::of(form);
  TextSettings of_config = folder.config_text;
  if (!bert_class.empty()) {
    if (!of_config.lowercase) of_config.lowercase = true;
    if (!of_config.tokenize_chinese_chars) of_config.tokenize_chinese_chars = true;
  }
  const TextSetting* const other = first_difference(of_config, of_json);
  if (other == nullptr || bert_class.empty()) folder.text = of_json;
  if (other == nullptr) return;
  const std::string hugging_face_name = other->hugging_face_name, value = word(*(of_config.completed().*other->value));
  const std::string config =
      folder.path + "/" + config_name +
      (folder.config_text.*other->value ? " says " + hugging_face_name + " = " + value
                                        : " leaves " + hugging_face_name + " at its default, " + value);
  folder.conflict = folder.path + "/tokenizer.json says " + other->name + " = " + word(*(of_json.*other->value)) +
                    ", but " + config + "; " +
                    (bert_class.empty() ? "tokenizer.json is used" : config_name + (" is used, for " + bert_class)) +
                    ", as in Transformers.";
}

/// Throws Error(files) naming the first id at which the two differ.
void require_same(const std::string& path, const std::vector<std::string>& lines,
                  const std::vector<std::string>& pieces) {
  const std::size_t common = std::min(lines.size(), pieces.size());
  std::size_t id = 0;
  while (id < common && lines[id] == pieces[id]) ++id;
  if (id == lines.size() && id == pieces.size()) return;
  const auto at = [id](const std::vector<std::string>& list) {
    return id < list.size() ? quoted(list[id]) : "missing";
  };
  throw core::Error(core::ExitCode::files,
                    path + ": vocab.txt and tokenizer.json hold different vocabularies: the piece " +
                        std::to_string(id) + " is " + at(lines) + " in vocab.txt and " + at(pieces) +
                        " in tokenizer.json. Delete the one that is not the model's.");
}

bool has_twice(const std::vector<std::string>& lines) {
  std::unordered_set<std::string_view> seen;
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return !seen.insert(line).second; });
}

/// Takes over what tokenizer.json says, beside the vocab.txt that was read before, if any.
/// Returns its added tokens.
std::vector<tokenize::AddedToken> add_tokenizer_json(TokenizerFolder& folder, const std::string& file,
                                                     const std::string& bert_class) {
  tokenize::TokenizerJson read = tokenize::read_tokenizer_json(file);
  const auto add = [&](const std::string& problem) { folder.problems.push_back(file + ": " + problem); };
  const bool lines = !folder.file.empty();
  // Of a piece that is there twice Transformers keeps the last, so tokenizer.json has no piece for the other's id.
  if (!read.vocabulary_problem.empty() && !(lines && has_twice(folder.vocabulary))) add(read.vocabulary_problem);
  for (const std::string& problem : read.problems) add(problem);
  if (read.form) settle_text(folder, *read.form, bert_class);
  if (read.pieces.empty()) return std::move(read.added);
  if (lines) {
    require_same(folder.path, folder.vocabulary, read.pieces);
  } else {
    folder.file = "tokenizer.json";
    folder.vocabulary = std::move(read.pieces);
  }
  return std::move(read.added);
}

void finish(TokenizerFolder& folder) {
  if (folder.file.empty()) return;
  for (const std::string& problem : tokenize::settle_added_tokens(folder.vocabulary, folder.added)) {
    folder.problems.push_back(folder.path + ": " + problem);
  }
  folder.pieces = static_cast<std::int64_t>(folder.vocabulary.size());
  for (const tokenize::AddedToken& token : folder.added) {
    folder.pieces = std::max<std::int64_t>(folder.pieces, token.id + 1);
  }
  folder.vocabulary_hash = tokenize::vocabulary_hash(folder.vocabulary, folder.added);
}

}  // namespace

std::string TokenizerFolder::says(const TextSetting& setting) const {
  const std::string value = word(*(text.completed().*setting.value));
  if ((config_text.completed().*setting.value) == (text.completed().*setting.value)) {
    return path + "/" + config_name + " says " + setting.hugging_face_name + " = " + value;
  }
  return path + "/tokenizer.json says " + setting.name + " = " + value;
}

TokenizerFolder read_tokenizer_folder(const std::string& path, const std::string& file) {
  TokenizerFolder folder;
  folder.path = path;
  const std::string lines = path + "/vocab.txt", whole = path + "/tokenizer.json";
  const json config = read_config(path + "/" + config_name);
  folder.config_text = folder.text = read_text_settings(config, &TextSetting::hugging_face_name);
  check_tokens(config, path + "/" + config_name, folder.problems);
  if (file != "tokenizer.json" && is_file(lines)) {
    folder.file = "vocab.txt";
    folder.vocabulary = core::split_lines(core::read_text_file(lines, longest_vocabulary));
  }
  const std::string bert_class = tokenizer_class(config, path);
  std::vector<tokenize::AddedToken> of_json;
  if (file != "vocab.txt" && is_file(whole)) of_json = add_tokenizer_json(folder, whole, bert_class);
  folder.added = added_tokens_of_folder(path, config, std::move(of_json), bert_class.empty(), folder.problems);
  finish(folder);
  return folder;
}

TokenizerFolder read_tokenizer_file(const std::string& path) {
  TokenizerFolder folder;
  folder.path = path;
  folder.added = add_tokenizer_json(folder, path, "");
  finish(folder);
  return folder;
}

}  // namespace bert_hpc::data
