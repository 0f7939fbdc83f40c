#include "bpe_json.hpp"

#include <algorithm>

#include "bert_hpc/core/json.hpp"
#include "json_sections.hpp"

namespace bert_hpc::tokenize {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

/// Tokens and ids, one a line, each with `indent` before it.
std::string entry_lines(const std::vector<std::string>& vocabulary, const char* indent) {
  std::string text;
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    text +=
        (id == 0 ? "\n" : ",\n") + (indent + core::json_text(ordered_json(vocabulary[id]))) + ": " + std::to_string(id);
  }
  return text + "\n";
}

}  // namespace

void check_bpe_model(const json& model, const char* title, std::vector<std::string>& problems) {
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const json& value = member(model, key);
    if (value.is_null() || value == "" || (value.is_number() && value == 0)) continue;
    problems.push_back("model." + std::string(key) + " is " + shown(value) + "; " + title + " has none.");
  }
  if (!model.contains("merges")) problems.push_back("model.merges is missing; BPE needs its merges.");
}

void take_bpe_parts(TokenizerDocument& document, bool line_ends, TokenizerJson& result) {
  TokenizerParts& parts = result.parts;
  parts.vocabulary = pieces_of(document, result.vocabulary_problem, line_ends);
  parts.merges = std::move(document.merges);
  const auto broken = std::find(parts.merges.begin(), parts.merges.end(), "");
  if (broken == parts.merges.end()) return;
  result.vocabulary_problem =
      "model.merges has the element " + std::to_string(broken - parts.merges.begin()) + ", which is no pair of tokens.";
  parts.merges.clear();
  parts.vocabulary.clear();
}

std::string text_with_vocabulary(const ordered_json& document, const std::vector<std::string>& vocabulary) {
  // The vocabulary goes into the text, as a key of an ordered object takes time in proportion to those before it.
  std::string text = core::json_text(document, 2);
  const std::string key = "\"vocab\": {";
  text.insert(text.rfind(key) + key.size(), entry_lines(vocabulary, "      ") + "    ");
  return text;
}

std::string vocabulary_json_text(const std::vector<std::string>& vocabulary) {
  return "{" + entry_lines(vocabulary, "") + "}\n";
}

}  // namespace bert_hpc::tokenize
