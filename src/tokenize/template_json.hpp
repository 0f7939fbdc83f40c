// A sequence template as the post_processor of a tokenizer.json has it, read and written. Internal to the module.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bert_hpc/tokenize/sequence_template.hpp"

namespace bert_hpc::tokenize {

/// A template with the tokens of its roles.
struct TokenTemplate {
  SequenceTemplate sequence{};
  std::string cls{}, sep{};  ///< "": it has no such token
};
/// The template in the lists of a TemplateProcessing. Returns nothing, and a problem, for one that SequenceTemplate
/// cannot express.
std::optional<TokenTemplate> template_of(const nlohmann::json& single, const nlohmann::json& pair,
                                         std::string& problem);

/// The TemplateProcessing of these lists. `ids`: of the template's tokens.
nlohmann::ordered_json template_processing(const nlohmann::json& single, const nlohmann::json& pair,
                                           const TokenTemplate& tokens, const SpecialIds& ids);

/// The list "single", or "pair", of a TemplateProcessing. `name` gives the token of a role.
template <class Name>
nlohmann::json template_list(const SequenceTemplate& sequence, bool pair, const Name& name) {
  nlohmann::json list = nlohmann::json::array();
  const auto add = [&](const char* what, const std::string& id, int type) {
    list.push_back({{what, {{"id", id}, {"type_id", type}}}});
  };
  const auto add_tokens = [&](const SequenceTemplate::Roles& roles, int type) {
    for (const auto role : roles) add("SpecialToken", name(role), type);
  };
  add_tokens(sequence.before, 0);
  add("Sequence", "A", 0);
  const SequenceTemplate::Roles& after = pair ? sequence.between : sequence.after;
  const auto second = after.end() - (pair ? sequence.second_between : 0);
  add_tokens({after.begin(), second}, 0);
  add_tokens({second, after.end()}, sequence.second_type);
  if (pair) {
    add("Sequence", "B", sequence.second_type);
    add_tokens(sequence.after_pair, sequence.second_type);
  }
  return list;
}

}  // namespace bert_hpc::tokenize
