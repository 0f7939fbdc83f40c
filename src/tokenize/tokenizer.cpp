// The list of kinds, their switches, and sequence templates.
#include "bert_hpc/tokenize/tokenizer.hpp"

#include <cctype>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::tokenize {

// Each kind's file defines its entry.
const TokenizerKind& byte_bpe_kind();
const TokenizerKind& letters_kind();
const TokenizerKind& metaspace_bpe_kind();
const TokenizerKind& unigram_kind();
const TokenizerKind& wordpiece_kind();

std::span<const TokenizerKind* const> tokenizer_kinds() {
  static const TokenizerKind* const kinds[] = {
      &wordpiece_kind(), &byte_bpe_kind(), &metaspace_bpe_kind(), &unigram_kind(), &letters_kind(),
  };
  return kinds;
}

const TokenizerKind* find_tokenizer_kind(std::string_view name) {
  for (const TokenizerKind* kind : tokenizer_kinds()) {
    if (name.empty() || name == kind->name) return kind;
  }
  return nullptr;
}

std::span<const char* const> implied_tokens(const TokenizerKind& kind, const TokenizerParts& parts) {
  return kind.implied_tokens != nullptr ? kind.implied_tokens(parts) : std::span<const char* const>();
}

const TokenizerKind* find_tokenizer_model(std::string_view model_type) {
  for (const TokenizerKind* kind : tokenizer_kinds()) {
    if (model_type == kind->model_type) return kind;
  }
  return nullptr;
}

std::string readable_tokenizers() {
  std::vector<std::string> types;
  for (const TokenizerKind* kind : tokenizer_kinds()) types.emplace_back(kind->title);
  return core::listed(types, "and", false);
}

TokenizerSettings completed(const TokenizerKind& kind, TokenizerSettings known) {
  if (kind.complete != nullptr) kind.complete(known);
  return known;
}

TokenizerSettings resolved(const TokenizerKind& kind, TokenizerSettings known) {
  TokenizerSettings all = known;
  for (const TokenizerKey& key : kind.keys) {
    // A switch may follow from the usual value of one before it.
    if (!all.contains(key.name)) all = completed(kind, all);
    all.try_emplace(key.name, key.usual);
  }
  return all;
}

const TokenizerKey* first_difference(const TokenizerKind& kind, const TokenizerSettings& a,
                                     const TokenizerSettings& b) {
  const TokenizerSettings left = completed(kind, a), right = completed(kind, b);
  for (const TokenizerKey& key : kind.keys) {
    const auto x = left.find(key.name), y = right.find(key.name);
    if (x != left.end() && y != right.end() && x->second != y->second) return &key;
  }
  return nullptr;
}

std::string vocabulary_hash(const TokenizerParts& parts) {
  if (parts.merges.empty() && parts.added.empty()) return core::hash_of_lines(parts.vocabulary);
  std::vector<std::string> lines = parts.vocabulary;
  lines.insert(lines.end(), parts.merges.begin(), parts.merges.end());
  for (std::string& line : hashed_lines(parts.added)) lines.push_back(std::move(line));
  return core::hash_of_lines(lines);
}

std::string differing_section(const std::string& a, const std::string& b) {
  const nlohmann::json left = core::parse_json(a), right = core::parse_json(b);
  for (const char* section : {"normalizer", "pre_tokenizer", "added_tokens", "post_processor", "model"}) {
    const auto of = [&](const nlohmann::json& document) {
      return document.is_object() ? document.value(section, nlohmann::json()) : nlohmann::json();
    };
    if (of(left) != of(right)) return section;
  }
  return "";
}

const SequenceTemplate& roberta_sequence() {
  static const SequenceTemplate sequence = [] {
    SequenceTemplate made;
    made.before = {&SpecialIds::cls};
    made.after = made.after_pair = {&SpecialIds::sep};
    made.between = {&SpecialIds::sep, &SpecialIds::sep};
    return made;
  }();
  return sequence;
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
