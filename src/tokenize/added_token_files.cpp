// Tried with Transformers 5.24. added_tokens_decoder of tokenizer_config.json replaces all older files; a
// class that takes all of tokenizer.json has its tokens too.
#include "added_token_files.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json_bounded.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/tokenize/added_tokens_json.hpp"
#include "json_member.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;
using Tokens = std::vector<AddedToken>;

constexpr const char* decoder_key = "added_tokens_decoder";
constexpr const char* extra_keys[] = {"extra_special_tokens", "additional_special_tokens"};

/// A file's object; an empty one where there is no file.
json read_object(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return json::object();
  json read = core::parse_bounded_json(core::read_text_file(file, core::longest_json));
  if (!read.is_object()) {
    throw core::Error(core::ExitCode::files,
                      file + ": is not a JSON object, or is nested too deeply; write it again or remove it.");
  }
  return read;
}

bool has(const Tokens& tokens, const std::string& content) {
  return std::any_of(tokens.begin(), tokens.end(), [&](const AddedToken& token) { return token.content == content; });
}

/// Whether tokenizer_config.json lists its tokens, which replace those of older files.
bool has_decoder(const json& config) {
  return member(config, decoder_key).is_object();
}

std::string not_a_token(const std::string& file, const std::string& key, const json& value) {
  return file + ": " + key + " has " + core::printable(core::json_text(value), 80) + ", which is no token.";
}

/// {"30522": {"content": "[E1]", …}, …}
Tokens of_decoder(const json& decoder, const std::string& file, std::vector<std::string>& problems) {
  Tokens tokens;
  for (const auto& [id, given] : decoder.items()) {
    std::optional<AddedToken> token = added_token_of(given);
    std::int32_t number = -1;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
    if (!token || !given.is_object() || error != std::errc() || end != id.data() + id.size() || number < 0) {
      problems.push_back(not_a_token(file, decoder_key, {{id, given}}));
      continue;
    }
    token->id = number;
    tokens.push_back(std::move(*token));
  }
  return tokens;
}

/// The text of a token, which may be an object with its switches; "" for other values.
std::string content_of(const json& token) {
  const json& text = token.is_object() ? member(token, "content") : token;
  return text.is_string() ? text.get<std::string>() : "";
}

/// added_tokens.json: {"[E1]": 30522, …}. Which of them are special follows from tokenizer_config.json.
Tokens of_older_file(const json& object, const json& config, const std::string& file,
                     std::vector<std::string>& problems) {
  std::set<std::string> special;
  if (const json& extra = member(config, extra_keys[0]); extra.is_array()) {
    for (const json& given : extra) special.insert(content_of(given));
  }
  for (const auto& [key, given] : config.items()) {
    if (key.ends_with("_token")) special.insert(content_of(given));
  }
  Tokens tokens;
  for (const auto& [content, id] : object.items()) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      problems.push_back(not_a_token(file, "it", {{content, id}}));
      continue;
    }
    const bool is_special = special.contains(content);
    tokens.push_back(
        {.content = content, .id = id.get<std::int32_t>(), .normalized = !is_special, .special = is_special});
  }
  return tokens;
}

/// Special tokens that a file names besides, without ids; those that are there already stay as they are.
void add_extra(const json& object, const std::string& file, Tokens& tokens, std::vector<std::string>& problems) {
  for (const char* key : extra_keys) {
    const auto extra = object.find(key);
    if (extra == object.end() || extra->is_null()) continue;
    for (const json& given : *extra) {
      std::optional<AddedToken> token = added_token_of(given);
      if (!token) {
        problems.push_back(not_a_token(file, key, given));
      } else if (!has(tokens, token->content)) {
        token->id = -1;
        tokens.push_back(std::move(*token));
      }
    }
  }
}

}  // namespace

Tokens listed_tokens(const std::string& path, const json& config, std::vector<std::string>& problems) {
  if (has_decoder(config)) return of_decoder(config[decoder_key], path + "/tokenizer_config.json", problems);
  const std::string file = path + "/added_tokens.json";
  return of_older_file(read_object(file), config, file, problems);
}

json special_tokens_map(const std::string& path, const json& config) {
  return has_decoder(config) ? json::object() : read_object(path + "/special_tokens_map.json");
}

Tokens added_tokens_of_folder(const std::string& path, const json& config, Tokens of_json, bool takes_all_of_json,
                              std::vector<std::string>& problems) {
  const std::string config_file = path + "/tokenizer_config.json", map_file = path + "/special_tokens_map.json";
  Tokens tokens;
  if (takes_all_of_json) tokens = of_json;
  const Tokens listed = listed_tokens(path, config, problems);
  // Tokens of tokenizer.json count instead of older ones of the same name.
  if (!has_decoder(config) && !takes_all_of_json) tokens = of_json;
  for (const AddedToken& token : listed) {
    if (!has(tokens, token.content)) tokens.push_back(token);
  }
  add_extra(config, config_file, tokens, problems);
  add_extra(special_tokens_map(path, config), map_file, tokens, problems);
  return tokens;
}

}  // namespace bert_hpc::tokenize
