// Tried with Transformers 5.24. added_tokens_decoder of tokenizer_config.json takes the place of all older files; a
// class that takes all of tokenizer.json has its tokens too.
#include "added_token_files.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json_bounded.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/tokenize/added_tokens_json.hpp"

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

/// added_tokens.json: {"[E1]": 30522, …}. Which of them are special follows from tokenizer_config.json.
Tokens of_older_file(const json& object, const json& config, const std::string& file,
                     std::vector<std::string>& problems) {
  Tokens special;
  const auto extra = config.find(extra_keys[0]);
  if (extra != config.end() && extra->is_array()) {
    for (const json& given : *extra) {
      if (const auto token = added_token_of(given)) special.push_back(*token);
    }
  }
  Tokens tokens;
  for (const auto& [content, id] : object.items()) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      problems.push_back(not_a_token(file, "it", {{content, id}}));
      continue;
    }
    const bool is_special = has(special, content);
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

std::vector<AddedToken> added_tokens_of_folder(const std::string& path, const json& config, Tokens of_json,
                                               bool takes_all_of_json, std::vector<std::string>& problems) {
  const std::string config_file = path + "/tokenizer_config.json", map_file = path + "/special_tokens_map.json",
                    older_file = path + "/added_tokens.json";
  const auto decoder = config.find(decoder_key);
  const bool has_decoder = decoder != config.end() && decoder->is_object();
  Tokens tokens;
  if (takes_all_of_json) tokens = of_json;
  const Tokens listed = has_decoder ? of_decoder(*decoder, config_file, problems)
                                    : of_older_file(read_object(older_file), config, older_file, problems);
  // Tokens of tokenizer.json count instead of older ones of the same name.
  if (!has_decoder && !takes_all_of_json) tokens = of_json;
  for (const AddedToken& token : listed) {
    if (!has(tokens, token.content)) tokens.push_back(token);
  }
  add_extra(config, config_file, tokens, problems);
  if (!has_decoder) add_extra(read_object(map_file), map_file, tokens, problems);
  return tokens;
}

}  // namespace bert_hpc::tokenize
