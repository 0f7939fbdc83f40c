// The JSON texts among a shard's attributes.
#include "bert_hpc/data/shard_schema.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_bounded.hpp"

namespace bert_hpc::data {
namespace {

using core::Error;
using core::ExitCode;
using Json = nlohmann::json;

Json parse(const std::string& text, const char* attribute, const std::string& file) {
  Json json = core::parse_bounded_json(text);
  if (json.is_discarded()) {
    throw Error(ExitCode::data, file + ": attribute '" + attribute +
                                    "' is not JSON, or is too long or nested too deeply; write the shard again.");
  }
  return json;
}

std::int32_t special_id(const Json& settings, const std::string& key, const std::string& file) {
  const auto entry = settings.find(key);
  if (entry == settings.end() || entry->is_null()) return -1;
  if (!entry->is_number_integer() || entry->get<std::int64_t>() < -1 ||
      entry->get<std::int64_t>() > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ExitCode::data, file + ": attribute 'tokenizer': '" + key + "' is " + entry->dump() +
                                    "; it must be the id of a token, or -1 for none.");
  }
  return entry->get<std::int32_t>();
}

Json settings_of(const std::string& json, const std::string& file) {
  Json settings = parse(json, shard_attribute::tokenizer, file);
  if (!settings.is_object()) {
    throw Error(ExitCode::data, file + ": attribute 'tokenizer' must be a JSON object of settings.");
  }
  return settings;
}

}  // namespace

std::string label_names_to_json(const std::vector<std::string>& names) {
  return core::json_text(Json(names));
}

std::vector<std::string> label_names_from_json(const std::string& json, const std::string& file) {
  const Json names = parse(json, shard_attribute::label_names, file);
  bool strings = names.is_array();
  for (const Json& name : names) strings = strings && name.is_string();
  if (!strings) {
    throw Error(ExitCode::data, file + ": attribute 'label_names' must be a JSON array of strings.");
  }
  return names.get<std::vector<std::string>>();
}

SpecialIds special_ids_from_json(const std::string& json, const std::string& file) {
  const Json settings = settings_of(json, file);
  SpecialIds ids;
  for (const tokenize::SpecialRole& role : tokenize::special_roles) {
    ids.*role.id = special_id(settings, special_id_key(role), file);
  }
  return ids;
}

std::int32_t text_end_from_json(const std::string& json, const std::string& file) {
  return special_id(settings_of(json, file), text_end_key, file);
}

std::int64_t max_tokens_from_json(const std::string& json, const std::string& file) {
  const Json settings = settings_of(json, file);
  const auto entry = settings.find("max_tokens");
  if (entry == settings.end() || entry->is_null()) return 0;
  if (!entry->is_number_integer() || entry->get<std::int64_t>() < 1) {
    throw Error(ExitCode::data, file + ": attribute 'tokenizer': 'max_tokens' is " + entry->dump() +
                                    "; it must be a positive number of tokens.");
  }
  return entry->get<std::int64_t>();
}

ShardPrompts prompts_from_json(const std::string& json, const std::string& file) {
  const Json settings = settings_of(json, file);
  const auto text = [&](const char* key) {
    const auto entry = settings.find(key);
    if (entry == settings.end()) return std::string();
    if (!entry->is_string()) {
      throw Error(ExitCode::data,
                  file + ": attribute 'tokenizer': '" + key + "' is " + entry->dump() + "; it must be a text.");
    }
    return entry->get<std::string>();
  };
  return {text(prompt_key), text(prompt_pair_key)};
}

ShardTokenizer shard_tokenizer(const std::string& json, const std::string& file) {
  const Json stated = settings_of(json, file);
  const auto type = stated.find("type");
  const bool has_type = type != stated.end() && type->is_string();
  ShardTokenizer tokenizer{tokenize::find_tokenizer_kind(has_type ? type->get<std::string>() : ""), {}};
  for (const auto& [name, value] : stated.items()) {
    if (value.is_boolean()) tokenizer.settings[name] = value.get<bool>();
  }
  return tokenizer;
}

}  // namespace bert_hpc::data
