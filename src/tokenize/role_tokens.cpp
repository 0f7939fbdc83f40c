#include "role_tokens.hpp"

#include <algorithm>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/wordpiece_layout.hpp"
#include "json_sections.hpp"

namespace bert_hpc::tokenize {
namespace {

constexpr const char* eos_role = "eos";  // as in "eos_token"

/// The ids of the roles.
void find_roles(const TokenizerParts& parts, const std::string& source, RoleTokens& roles) {
  const auto lacks = [&](const std::string& what, const std::string& token, const char* where) {
    throw core::Error(core::ExitCode::data, source + ": " + what + " \"" + core::printable(token, 80) + '"' + where +
                                                ", which the vocabulary lacks.");
  };
  const auto& stated = parts.special_tokens;
  for (const SpecialRole& role : special_roles) {
    std::int32_t& id = roles.special.*role.id;
    const auto given = stated.find(role.name);
    if (given != stated.end()) {
      id = roles.id_of(given->second);
      if (id < 0)
        lacks(std::string(role.name) + "_token is", given->second,
              " in tokenizer_config.json or special_tokens_map.json");
    } else if (role.id != &SpecialIds::cls && role.id != &SpecialIds::sep) {
      id = roles.id_of(roberta_token(role.id).content);
      if (id < 0) id = roles.id_of(bert_layout().token(role.id));
    }
  }
  for (const auto& [token, id] :
       {std::pair(&roles.layout.cls, &roles.special.cls), std::pair(&roles.layout.sep, &roles.special.sep)}) {
    if (token->empty()) continue;
    *id = roles.id_of(*token);
    if (*id < 0) lacks("its post_processor has the token", *token, "");
  }
  const auto stated_end = stated.find(eos_role);
  roles.text_end = stated_end != stated.end() ? roles.id_of(stated_end->second) : roles.special.sep;
}

}  // namespace

AddedToken roberta_token(std::int32_t SpecialIds::*role) {
  const bool is_mask = role == &SpecialIds::mask;
  const char* const content = role == &SpecialIds::cls   ? "<s>"
                              : role == &SpecialIds::pad ? "<pad>"
                              : role == &SpecialIds::sep ? "</s>"
                              : role == &SpecialIds::unk ? "<unk>"
                                                         : "<mask>";
  return {.content = content, .lstrip = is_mask, .special = true};
}

std::int32_t RoleTokens::id_of(const std::string& token) const {
  const auto found = ids.find(token);
  return found == ids.end() ? -1 : found->second;
}

std::string RoleTokens::name_of(std::int32_t id) const {
  return id < 0 ? std::string() : tokens.at(static_cast<std::size_t>(id));
}

RoleTokens role_tokens(const TokenizerParts& parts, const nlohmann::json& single, const nlohmann::json& pair,
                       const std::string& source) {
  std::string problem;
  const auto sequence = template_of(single, pair, problem);
  if (!sequence) throw core::Error(core::ExitCode::data, source + ": its post_processor " + problem);
  RoleTokens roles{.layout = *sequence, .tokens = parts.vocabulary};
  for (std::size_t id = 0; id < roles.tokens.size(); ++id) roles.ids[roles.tokens[id]] = static_cast<std::int32_t>(id);
  for (const AddedToken& token : parts.added) {
    roles.ids.emplace(token.content, token.id);
    if (token.id == std::ssize(roles.tokens)) roles.tokens.push_back(token.content);
  }
  find_roles(parts, source, roles);
  return roles;
}

void add_role_tokens(const RoleTokens& roles, TokenizerParts& parts) {
  for (const SpecialRole& role : special_roles) {
    const std::int32_t id = roles.special.*role.id;
    const auto has_id = [&](const AddedToken& token) { return token.id == id; };
    if (id < 0 || std::any_of(parts.added.begin(), parts.added.end(), has_id)) continue;
    AddedToken token = roberta_token(role.id);
    // Files that describe more than the usual tokenizer would list a mask that takes blanks.
    token.lstrip = token.lstrip && parts.sections.empty();
    token.content = roles.name_of(id);
    token.id = id;
    parts.added.push_back(std::move(token));
  }
  std::stable_sort(parts.added.begin(), parts.added.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

nlohmann::json config_of(const RoleTokens& roles, const std::vector<AddedToken>& added,
                         const std::string& tokenizer_class, std::int64_t max_tokens) {
  nlohmann::json config = {{"tokenizer_class", tokenizer_class},
                           {"model_max_length", max_tokens},
                           {"added_tokens_decoder", added_tokens_decoder(added)}};
  const auto name = [&](const char* role, std::int32_t id) {
    if (id >= 0) config[std::string(role) + "_token"] = roles.name_of(id);
  };
  for (const SpecialRole& role : special_roles) name(role.name, roles.special.*role.id);
  name("bos", roles.special.cls >= 0 ? roles.special.cls : roles.text_end);
  name(eos_role, roles.text_end);
  return config;
}

}  // namespace bert_hpc::tokenize
