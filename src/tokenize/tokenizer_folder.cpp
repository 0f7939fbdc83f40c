// Whose settings count is decided as in Transformers 5, tried with 5.23: a class of its own kind, such as
// BertTokenizer, takes only the vocabulary from tokenizer.json, and its settings from tokenizer_config.json or its
// defaults; a general class takes all of tokenizer.json.
#include "bert_hpc/tokenize/tokenizer_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "added_token_files.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json_bounded.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "json_member.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* config_name = "tokenizer_config.json";
constexpr const char* json_name = "tokenizer.json";

std::string quoted_piece(const std::string& text) {
  return '"' + core::printable(text, 80) + '"';
}

const char* truth(bool value) {
  return value ? "true" : "false";
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

ConfigFile read_config(const std::string& file) {
  if (!is_file(file)) return {json::object(), file};
  json config = core::parse_bounded_json(core::read_text_file(file, core::longest_json));
  if (!config.is_object()) {
    throw core::Error(core::ExitCode::files,
                      file + ": is not a JSON object, or is nested too deeply; write it again or remove it.");
  }
  return {std::move(config), file};
}

/// Older folders name the special tokens in a file of their own, which counts as in Transformers.
void add_special_tokens_map(const std::string& path, json& config) {
  const std::string file = path + "/special_tokens_map.json";
  if (config.contains("added_tokens_decoder")) return;
  const ConfigFile named = read_config(file);
  for (const auto& [key, token] : named.json.items()) {
    if (key.ends_with("_token")) config[key] = token;
  }
}

/// What the file states of the kind's switches; what is no boolean is not known.
TokenizerSettings stated(const json& config, const TokenizerKind& kind) {
  TokenizerSettings known;
  for (const TokenizerKey& key : kind.keys) {
    const json& value = member(config, key.hugging_face_name);
    if (value.is_boolean()) known[key.name] = value.get<bool>();
  }
  return known;
}

/// The class that Transformers reads the folder with; "" for a general one, which takes all of tokenizer.json.
std::string tokenizer_class(const json& config, const TokenizerKind& kind, const std::string& path) {
  if (kind.own_files.empty()) return "";
  const json& given = member(config, "tokenizer_class");
  if (!given.is_string()) return is_file(path + "/config.json") ? kind.usual_class : "";
  const std::string name = core::printable(given.get<std::string>(), 80);
  return name == "TokenizersBackend" || name == "PreTrainedTokenizerFast" ? "" : name;
}

/// Completes the switches by those of tokenizer.json, and states where these differ from tokenizer_config.json.
void settle_settings(TokenizerFolder& folder, const TokenizerSettings& of_json, const std::string& own_class) {
  const TokenizerKind& kind = *folder.kind;
  TokenizerSettings of_config = folder.config_settings;
  for (const TokenizerKey& key : kind.keys) {
    if (!own_class.empty() && key.class_default) of_config.try_emplace(key.name, *key.class_default);
  }
  const TokenizerKey* const other = first_difference(kind, of_config, of_json);
  if (other == nullptr || own_class.empty()) folder.parts.settings = of_json;
  if (other == nullptr) return;
  const std::string value = truth(completed(kind, of_config).at(other->name));
  const std::string config =
      folder.path + "/" + config_name + (folder.config_settings.contains(other->name) ? " says " : " leaves ") +
      other->hugging_face_name + (folder.config_settings.contains(other->name) ? " = " : " at its default, ") + value;
  folder.conflict = folder.path + "/" + json_name + " says " + other->name + " = " +
                    truth(completed(kind, of_json).at(other->name)) + ", but " + config + "; " +
                    (own_class.empty() ? std::string(json_name) + " is used"
                                       : std::string(config_name) + " is used, for " + own_class) +
                    ", as in Transformers.";
}

/// Throws Error(files) naming the first id at which the two differ.
void require_same(const std::string& path, const std::string& name, const std::vector<std::string>& lines,
                  const std::vector<std::string>& pieces) {
  const std::size_t common = std::min(lines.size(), pieces.size());
  std::size_t id = 0;
  while (id < common && lines[id] == pieces[id]) ++id;
  if (id == lines.size() && id == pieces.size()) return;
  const auto at = [id](const std::vector<std::string>& list) {
    return id < list.size() ? quoted_piece(list[id]) : "missing";
  };
  throw core::Error(core::ExitCode::files, path + ": " + name + " and " + json_name +
                                               " hold different vocabularies: the piece " + std::to_string(id) +
                                               " is " + at(lines) + " in " + name + " and " + at(pieces) + " in " +
                                               json_name + ". Delete the one that is not the model's.");
}

bool has_twice(const std::vector<std::string>& lines) {
  std::unordered_set<std::string_view> seen;
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return !seen.insert(line).second; });
}

/// Takes over what tokenizer.json says, beside the own files that were read before, if any. Returns its added tokens.
std::vector<AddedToken> add_tokenizer_json(TokenizerFolder& folder, const std::string& file, TokenizerJson read,
                                           const std::string& own_class) {
  const auto add = [&](const std::string& problem) { folder.problems.push_back(file + ": " + problem); };
  const bool own = !folder.file.empty();
  // Transformers keeps the last of two equal pieces, so tokenizer.json has no piece for the other's id.
  if (!read.vocabulary_problem.empty() && !(own && has_twice(folder.parts.vocabulary))) add(read.vocabulary_problem);
  for (const std::string& problem : read.problems) add(problem);
  if (folder.kind == nullptr) return std::move(read.parts.added);
  if (!read.parts.settings.empty()) settle_settings(folder, read.parts.settings, own_class);
  folder.parts.sections = std::move(read.parts.sections);
  if (read.parts.vocabulary.empty()) return std::move(read.parts.added);
  if (own) {
    require_same(folder.path, folder.file, folder.parts.vocabulary, read.parts.vocabulary);
  } else {
    folder.file = json_name;
    folder.parts.vocabulary = std::move(read.parts.vocabulary);
  }
  folder.parts.merges = std::move(read.parts.merges);
  return std::move(read.parts.added);
}

void finish(TokenizerFolder& folder) {
  if (folder.file.empty()) return;
  TokenizerParts& parts = folder.parts;
  const auto implied = implied_tokens(*folder.kind, parts);
  for (const std::string& problem : settle_added_tokens(parts.vocabulary, parts.added, implied)) {
    folder.problems.push_back(folder.path + ": " + problem);
  }
  folder.pieces = static_cast<std::int64_t>(parts.vocabulary.size());
  for (const AddedToken& token : parts.added) folder.pieces = std::max<std::int64_t>(folder.pieces, token.id + 1);
  folder.vocabulary_hash = vocabulary_hash(parts);
}

/// The name of the own file that a vocabulary of this kind is read from, which is `file` if several hold one; "": the
/// folder has none.
std::string own_file_of(const TokenizerKind& kind, const std::string& path, const std::string& file) {
  for (const char* const name : kind.own_files) {
    const bool is_wanted = file.empty() || !kind.converts_files || file == name;
    if (is_wanted && is_file(path + "/" + name)) return name;
    if (!kind.converts_files) break;  // the others are read beside the first one
  }
  return {};
}

/// Whether files that several kinds have are of this one.
bool is_named(const TokenizerKind& kind, const std::string& path, const json& config) {
  const json& own_class = member(config, "tokenizer_class");
  return own_class.is_string() ? own_class == kind.usual_class : model_type_of(path) == kind.model_family;
}

/// The kind whose own files the folder has, and that `file` is one of, if given; null if there is none.
const TokenizerKind* kind_of_files(const std::string& path, const std::string& file, const json& config,
                                   const TokenizerKind* wanted) {
  const TokenizerKind* found = nullptr;
  for (const TokenizerKind* kind : tokenizer_kinds()) {
    const auto& names = kind->own_files;
    const auto is_given = [&](const char* name) { return file == name; };
    if (!file.empty() && std::none_of(names.begin(), names.end(), is_given)) continue;
    if (own_file_of(*kind, path, file).empty()) continue;
    if (kind == wanted) return kind;
    if (kind->model_family == nullptr && found == nullptr) found = kind;
    if (kind->model_family != nullptr && is_named(*kind, path, config)) return kind;
  }
  return found;
}

}  // namespace

std::string TokenizerFolder::says(const TokenizerKey& key) const {
  const TokenizerSettings known = completed(*kind, parts.settings), of_config = completed(*kind, config_settings);
  const std::string value = truth(known.at(key.name));
  const auto config = of_config.find(key.name);
  if (config != of_config.end() && config->second == known.at(key.name)) {
    return path + "/" + config_name + " says " + key.hugging_face_name + " = " + value;
  }
  return path + "/" + json_name + " says " + key.name + " = " + value;
}

std::string TokenizerFolder::spec_hash() const {
  if (!has_vocabulary() || !problems.empty()) return "";
  const TokenizerSettings known = completed(*kind, parts.settings);
  for (const TokenizerKey& key : kind->keys) {
    if (!known.contains(key.name)) return "";
  }
  try {
    return kind->make(parts, path)->spec().hash;
  } catch (const core::Error&) {
    return "";  // reported where the tokenizer itself is made
  }
}

TokenizerFolder read_tokenizer_folder(const std::string& path, const std::string& file, const TokenizerKind* wanted) {
  TokenizerFolder folder;
  folder.path = path;
  ConfigFile config = read_config(path + "/" + config_name);
  add_special_tokens_map(path, config.json);
  const std::string whole = path + "/" + json_name;
  std::optional<TokenizerJson> document;
  if ((file.empty() || file == json_name) && is_file(whole)) document = read_tokenizer_json(whole);
  const TokenizerKind* const of_files = file == json_name ? nullptr : kind_of_files(path, file, config.json, wanted);
  folder.kind = document ? find_tokenizer_model(document->kind) : of_files;
  const bool takes_files = of_files != nullptr && (!document || (of_files == folder.kind && !of_files->converts_files));
  std::string own_class;
  std::vector<AddedToken> of_json;
  if (folder.kind != nullptr) {
    own_class = tokenizer_class(config.json, *folder.kind, path);
    folder.kind->read_config(config, folder.parts, folder.problems);
  }
  if (folder.kind == nullptr && !document) folder.kind = find_tokenizer_kind("");  // tokenizer_config.json may be there
  if (folder.kind != nullptr) folder.config_settings = folder.parts.settings = stated(config.json, *folder.kind);
  if (takes_files) {
    const std::string own = own_file_of(*folder.kind, path, file);
    folder.kind->read_own_files(path + "/" + own, config, folder.parts, folder.problems);
    if (!folder.parts.vocabulary.empty() || folder.problems.empty()) folder.file = own;
    if (!document) of_json = std::move(folder.parts.added);
    if (folder.kind->converts_files) own_class.clear();  // whose tokenizer.json the parts are
  }
  if (document) {
    of_json = add_tokenizer_json(folder, whole, std::move(*document), own_class);
    const auto difference = folder.kind != nullptr ? folder.kind->class_difference : nullptr;
    if (difference != nullptr && folder.problems.empty()) folder.conflict = difference(path, config, folder.parts);
  }
  folder.parts.added =
      added_tokens_of_folder(path, config.json, std::move(of_json), own_class.empty(), folder.problems);
  finish(folder);
  return folder;
}

TokenizerFolder read_tokenizer_file(const std::string& path) {
  TokenizerFolder folder;
  folder.path = path;
  TokenizerJson document = read_tokenizer_json(path);
  folder.kind = find_tokenizer_model(document.kind);
  folder.parts.added = add_tokenizer_json(folder, path, std::move(document), "");
  finish(folder);
  return folder;
}

bool is_tokenizer_file(const std::string& name) {
  if (name == json_name) return true;
  for (const TokenizerKind* kind : tokenizer_kinds()) {
    for (const char* own : kind->own_files) {
      if (name == own) return true;
    }
  }
  return false;
}

}  // namespace bert_hpc::tokenize
