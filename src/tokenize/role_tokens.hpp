// Tokens of tokenizers whose special tokens have no fixed names: which of them have a role, by the template, as
// tokenizer_config.json states, or by the names of RoBERTa or BERT. Internal to the module.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "bert_hpc/tokenize/tokenizer.hpp"
#include "template_json.hpp"

namespace bert_hpc::tokenize {

/// RoBERTa's token of a role, special; the mask takes the blanks before it.
AddedToken roberta_token(std::int32_t SpecialIds::*role);

struct RoleTokens {
  TokenTemplate layout{};
  std::vector<std::string> tokens{};  ///< by id, added ones included
  std::unordered_map<std::string, std::int32_t> ids{};
  SpecialIds special{};
  std::int32_t text_end = -1;

  /// −1: there is no such token.
  std::int32_t id_of(const std::string& token) const;
  /// "", or the token of the id.
  std::string name_of(std::int32_t id) const;
};

/// single, pair: the lists of a TemplateProcessing. A role for which neither they nor tokenizer_config.json has a
/// token, and whose usual name is none, has the id −1. Throws Error(data), naming `source`, for a template that
/// SequenceTemplate cannot express, and for tokens that the vocabulary lacks.
RoleTokens role_tokens(const TokenizerParts& parts, const nlohmann::json& single, const nlohmann::json& pair,
                       const std::string& source);

/// Adds the tokens of roles to parts.added, as they are found in text whether files list them there or not.
void add_role_tokens(const RoleTokens& roles, TokenizerParts& parts);

/// The tokenizer_config.json that names them. `tokenizer_class`: of Transformers; `max_tokens`: longest sequence.
nlohmann::json config_of(const RoleTokens& roles, const std::vector<AddedToken>& added,
                         const std::string& tokenizer_class, std::int64_t max_tokens);

}  // namespace bert_hpc::tokenize
