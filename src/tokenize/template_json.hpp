// A sequence template as the post_processor of a tokenizer.json has it. Internal to the module.
#pragma once

#include <nlohmann/json.hpp>

#include "bert_hpc/tokenize/sequence_template.hpp"

namespace bert_hpc::tokenize {

/// The list "single", or "pair", of a TemplateProcessing. `name` gives the token of a role.
template <class Json, class Name>
Json template_list(const SequenceTemplate& sequence, bool pair, const Name& name) {
  Json list = Json::array();
  const auto add = [&](const char* what, const std::string& id, int type) {
    list.push_back(Json{{what, {{"id", id}, {"type_id", type}}}});
  };
  const auto add_tokens = [&](const SequenceTemplate::Roles& roles, int type) {
    for (const auto role : roles) add("SpecialToken", name(role), type);
  };
  add_tokens(sequence.before, 0);
  add("Sequence", "A", 0);
  add_tokens(pair ? sequence.between : sequence.after, pair ? sequence.between_type : 0);
  if (pair) {
    add("Sequence", "B", sequence.second_type);
    add_tokens(sequence.after_pair, sequence.second_type);
  }
  return list;
}

}  // namespace bert_hpc::tokenize
