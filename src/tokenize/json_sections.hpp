// Sections of a tokenizer.json that kinds of tokenizers share. Internal to the module.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/tokenize/added_tokens.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "json_member.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {

/// At most 80 characters of a value, for messages.
std::string shown(const nlohmann::json& value);
/// A section by its "type", for messages: "missing", "of type \"Sequence\"".
std::string type_of(const nlohmann::json& value);
bool has_type(const nlohmann::json& value, const char* type);
/// The only element of a Sequence of one; else `value` itself. `list`: the key of a Sequence's elements.
const nlohmann::json& unwrapped(const nlohmann::json& value, const char* list);

/// A switch of an object; `absent` without it.
bool is_on(const nlohmann::json& object, const char* key, bool absent);
/// The elements of a Sequence; a component alone is one.
std::vector<nlohmann::json> elements_of(const nlohmann::json& component, const char* list);
/// Appends a problem for each token of the post-processor whose id is not the vocabulary's.
void check_template_ids(const nlohmann::json& given, const std::vector<std::string>& vocabulary,
                        const std::vector<AddedToken>& added, std::vector<std::string>& problems);

/// The tokens of model.vocab by id, which leave `document`; empty, and a problem, if the ids are not 0 … n-1, each
/// once. A line end in a token is a problem unless `line_ends`.
std::vector<std::string> pieces_of(TokenizerDocument& document, std::string& problem, bool line_ends = false);

/// TokenizerKind::read_config of kinds whose special tokens have no fixed names: takes the names of roles that the file
/// states, and that of the role "eos".
void read_special_token_names(const ConfigFile& config, TokenizerParts& parts, std::vector<std::string>& problems);

/// Added tokens as tokenizer.json lists them.
nlohmann::ordered_json added_tokens_json(std::span<const AddedToken> tokens);
/// The same by id, as tokenizer_config.json has them.
nlohmann::json added_tokens_decoder(std::span<const AddedToken> tokens);
/// The list added_tokens; appends a problem for each element that is no token.
std::vector<AddedToken> read_added_tokens(const nlohmann::json& tokens, std::vector<std::string>& problems);

}  // namespace bert_hpc::tokenize
