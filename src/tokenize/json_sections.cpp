#include "json_sections.hpp"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/added_tokens_json.hpp"

namespace bert_hpc::tokenize {

using nlohmann::json;

std::string shown(const json& value) {
  return core::printable(core::json_text(value), 80);
}

/// What `value` is by its "type", for messages.
std::string type_of(const json& value) {
  if (value.is_null()) return "missing";
  const json& type = member(value, "type");
  return "of type " + (type.is_string() ? shown(type) : shown(value));
}

bool has_type(const json& value, const char* type) {
  return member(value, "type") == type;
}

/// A Sequence of one element is that element.
const json& unwrapped(const json& value, const char* list) {
  const json& elements = member(value, list);
  const bool one = has_type(value, "Sequence") && elements.is_array() && elements.size() == 1;
  return one ? elements.front() : value;
}

bool is_on(const json& object, const char* key, bool absent) {
  const json& value = member(object, key);
  return value.is_boolean() ? value.get<bool>() : absent;
}

std::vector<json> elements_of(const json& component, const char* list) {
  if (component.is_null()) return {};
  const json& elements = member(component, list);
  if (!has_type(component, "Sequence") || !elements.is_array()) return {component};
  return elements.get<std::vector<json>>();
}

void check_template_ids(const json& given, const std::vector<std::string>& vocabulary,
                        const std::vector<AddedToken>& added, std::vector<std::string>& problems) {
  const auto check = [&](const json& token, const json& id) {
    if (!token.is_string()) return;
    const auto found = std::find(vocabulary.begin(), vocabulary.end(), token.get_ref<const std::string&>());
    std::int64_t own = found - vocabulary.begin();
    for (const AddedToken& one : added) {
      if (found == vocabulary.end() && one.content == token.get_ref<const std::string&>()) own = one.id;
    }
    if (id == own) return;
    problems.push_back("its post_processor gives the token " + shown(token) + " the id " + shown(id) +
                       ", and the vocabulary " +
                       (own == std::ssize(vocabulary) ? "lacks it." : std::to_string(own) + "."));
  };
  for (const json& element : elements_of(given, "processors")) {
    for (const char* key : {"cls", "sep"}) {
      const json& token = member(element, key);
      if (token.is_array() && token.size() == 2) check(token[0], token[1]);
    }
    for (const auto& [name, token] : member(element, "special_tokens").items()) {
      const json& ids = member(token, "ids");
      check(name, ids.is_array() && ids.size() == 1 ? ids[0] : ids);
    }
  }
}

std::vector<std::string> pieces_of(TokenizerDocument& document, std::string& problem, bool line_ends) {
  const auto fail = [&](const std::string& text) {
    problem = "model.vocab " + text;
    return std::vector<std::string>();
  };
  const std::size_t count = document.entries.size();
  if (document.too_many_entries) return fail("has more than " + core::with_commas(max_entries) + " entries.");
  if (count == 0) return fail("is missing or empty, or is no object of pieces and ids.");
  std::unordered_set<std::string_view> seen;
  for (const VocabularyEntry& entry : document.entries) {
    const std::string name = '"' + core::printable(entry.piece, 80) + '"';
    if (!seen.insert(entry.piece).second) return fail("has the piece " + name + " twice.");
    const bool has_line_end = !line_ends && entry.piece.find_first_of("\r\n") != std::string::npos;
    if (has_line_end || entry.piece.find('\0') != std::string::npos) {
      return fail("has the piece " + name + ", which holds a line end or a zero byte; no word has one.");
    }
    if (entry.id < 0) return fail("gives the piece " + name + " an id that is not a whole number from 0 on.");
    if (entry.id >= static_cast<std::int64_t>(count)) {
      return fail("has " + core::counted(static_cast<std::int64_t>(count), "entry", "entries") +
                  " and gives the piece " + name + " the id " + std::to_string(entry.id) + "; ids must be 0 to " +
                  std::to_string(count - 1) + ", each once.");
    }
  }
  seen.clear();
  std::vector<std::string> pieces(count);
  std::vector<bool> taken(count, false);
  for (VocabularyEntry& entry : document.entries) {
    const auto id = static_cast<std::size_t>(entry.id);
    if (taken[id]) {
      return fail("gives the id " + std::to_string(id) + " to \"" + core::printable(pieces[id], 80) + "\" and \"" +
                  core::printable(entry.piece, 80) + "\".");
    }
    taken[id] = true;
    pieces[id] = std::move(entry.piece);
  }
  return pieces;
}

void read_special_token_names(const ConfigFile& config, TokenizerParts& parts, std::vector<std::string>&) {
  const auto read = [&](const char* name) {
    const std::string key = std::string(name) + "_token";
    const json& token = member(config.json, key.c_str());
    const json& text = token.is_object() ? member(token, "content") : token;
    if (text.is_string()) parts.special_tokens[name] = text.get<std::string>();
  };
  for (const SpecialRole& role : special_roles) read(role.name);
  read("eos");
}

nlohmann::ordered_json added_tokens_json(std::span<const AddedToken> tokens) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const AddedToken& token : tokens) {
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

json added_tokens_decoder(std::span<const AddedToken> tokens) {
  json decoder = json::object();
  for (json token : json(added_tokens_json(tokens))) {
    const std::string id = std::to_string(token["id"].get<std::int32_t>());
    token.erase("id");
    decoder[id] = std::move(token);
  }
  return decoder;
}

std::vector<AddedToken> read_added_tokens(const json& tokens, std::vector<std::string>& problems) {
  std::vector<AddedToken> all;
  for (const json& given : tokens) {
    const std::optional<AddedToken> token = added_token_of(given);
    if (token && given.is_object()) {
      all.push_back(*token);
    } else {
      problems.push_back("added_tokens has " + shown(given) + ", which is no object with a text and an id.");
    }
  }
  return all;
}

std::optional<AddedToken> added_token_of(const json& token) {
  if (token.is_string()) return AddedToken{.content = token.get<std::string>(), .special = true};
  const json& content = member(token, "content");
  if (!content.is_string()) return std::nullopt;
  const auto is_on = [&](const char* key) { return member(token, key) == true; };
  AddedToken read{.content = content.get<std::string>(),
                  .single_word = is_on("single_word"),
                  .lstrip = is_on("lstrip"),
                  .rstrip = is_on("rstrip"),
                  .special = is_on("special")};
  const json &normalized = member(token, "normalized"), &id = member(token, "id");
  read.normalized = normalized.is_boolean() ? normalized.get<bool>() : !read.special;
  const bool has_id = id.is_number_integer() && id >= 0 && id <= std::numeric_limits<std::int32_t>::max();
  if (has_id) read.id = id.get<std::int32_t>();
  return read;
}

}  // namespace bert_hpc::tokenize
