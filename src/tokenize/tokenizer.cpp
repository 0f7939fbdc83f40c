// The list of kinds, and sequence templates.
#include "bert_hpc/tokenize/tokenizer.hpp"

#include <cctype>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::tokenize {

// Each kind's file defines its entry.
const TokenizerKind& wordpiece_kind();

std::span<const TokenizerKind* const> tokenizer_kinds() {
  static const TokenizerKind* const kinds[] = {
      &wordpiece_kind(),
  };
  return kinds;
}

const TokenizerKind* find_tokenizer_kind(std::string_view name) {
  for (const TokenizerKind* kind : tokenizer_kinds()) {
    if (name == kind->name) return kind;
  }
  return nullptr;
}

const TokenizerKind* find_tokenizer_model(std::string_view model_type) {
  for (const TokenizerKind* kind : tokenizer_kinds()) {
    if (model_type == kind->model_type) return kind;
  }
  return nullptr;
}

std::string readable_tokenizers() {
  std::vector<std::string> types;
  for (const TokenizerKind* kind : tokenizer_kinds()) types.emplace_back(kind->model_type);
  return core::listed(types, "and", false);
}

std::string describe(const SequenceTemplate& sequence, bool pair) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
  const auto add_tokens = [&](const SequenceTemplate::Roles& roles) {
    for (const auto role : roles) {
      for (const SpecialRole& known : special_roles) {
        if (known.id != role) continue;
        std::string name = known.name;
        for (char& letter : name) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
        add('[' + name + ']');
      }
    }
  };
  add_tokens(sequence.before);
  add("a");
  add_tokens(pair ? sequence.between : sequence.after);
  if (pair) {
    add("b");
    add_tokens(sequence.after_pair);
  }
  return words;
}

std::vector<std::int32_t> ids_of(const SequenceTemplate::Roles& roles, const SpecialIds& ids) {
  std::vector<std::int32_t> found;
  for (const auto role : roles) {
    core::require(ids.*role >= 0, "a tokenizer has the special tokens of its template");
    found.push_back(ids.*role);
  }
  return found;
}

}  // namespace bert_hpc::tokenize
