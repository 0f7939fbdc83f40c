// Only the form that this program writes is read: a WordLevel model alone says nothing of where words end.
#include "letters_json.hpp"

#include <algorithm>
#include <string_view>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "json_sections.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string escaped(const std::string& token) {
  constexpr std::string_view special = "\\.+*?()|[]{}^$";
  std::string text;
  for (const char letter : token) {
    if (special.find(letter) != std::string_view::npos) text += '\\';
    text += letter;
  }
  return text;
}

/// A regular expression of the longest token at a position, whose alternatives count in their order.
std::string any_token(std::vector<std::string> tokens) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  std::string text;
  for (const std::string& token : tokens) text += (text.empty() ? "" : "|") + escaped(token);
  return text;
}

ordered_json pre_tokenizer_of(const std::vector<std::string>& vocabulary) {
  const ordered_json tokens = {
      {"type", "Split"}, {"pattern", {{"Regex", any_token(vocabulary)}}}, {"behavior", "Isolated"}, {"invert", false}};
  ordered_json both = ordered_json::array();
  both.push_back({{"type", "WhitespaceSplit"}});
  both.push_back(tokens);
  return {{"type", "Sequence"}, {"pretokenizers", both}};
}

}  // namespace

LettersForm letters_form(const std::string& cls, const std::string& eos) {
  SequenceTemplate sequence;
  sequence.before = {&SpecialIds::cls};
  sequence.after = sequence.between = sequence.after_pair = {&SpecialIds::sep};
  const auto name = [&](std::int32_t SpecialIds::*role) { return role == &SpecialIds::cls ? cls : eos; };
  return {.single = template_list(sequence, false, name), .pair = template_list(sequence, true, name)};
}

std::string text_of(const LettersForm& form) {
  return core::json_text(json{{"unknown", form.unknown}, {"single", form.single}, {"pair", form.pair}});
}

LettersForm letters_form_of(const std::string& sections) {
  const json given = core::parse_json(sections);
  core::require(given.is_object(), "sections of a letters tokenizer are JSON");
  return {.unknown = given.at("unknown").get<std::string>(), .single = given.at("single"), .pair = given.at("pair")};
}

void read_letters_json(TokenizerDocument& document, TokenizerJson& result) {
  TokenizerParts& parts = result.parts;
  LettersForm form;
  const json& unknown = member(member(document.json, "model"), "unk_token");
  if (unknown.is_string()) form.unknown = unknown.get<std::string>();
  parts.vocabulary = pieces_of(document, result.vocabulary_problem);
  parts.added = read_added_tokens(member(document.json, "added_tokens"), result.problems);
  const json &normalizer = member(document.json, "normalizer"), &given = member(document.json, "pre_tokenizer");
  const bool has_own_words = given != json::parse(core::json_text(pre_tokenizer_of(parts.vocabulary)));
  if (!normalizer.is_null() || has_own_words) {
    const std::string section = normalizer.is_null() ? "pre_tokenizer is " + type_of(given) : "normalizer is not null";
    result.problems = {
        "holds a WordLevel tokenizer whose " + section +
        "; this version reads only those of letters, which split text at blanks and around each token of "
        "the vocabulary."};
    result.vocabulary_problem.clear();
    parts = {};
    return;
  }
  for (const json& element : elements_of(member(document.json, "post_processor"), "processors")) {
    if (has_type(element, "TemplateProcessing")) {
      form.single = member(element, "single");
      form.pair = member(element, "pair");
    } else {
      result.problems.push_back("its post_processor is " + type_of(element) +
                                "; this version reads TemplateProcessing behind letters.");
    }
  }
  std::string problem;
  if (!template_of(form.single, form.pair, problem)) result.problems.push_back("its post_processor " + problem);
  if (!parts.vocabulary.empty()) {
    check_template_ids(member(document.json, "post_processor"), parts.vocabulary, parts.added, result.problems);
  }
  parts.sections = text_of(form);
}

std::string letters_json_text(const TokenizerParts& parts, const LettersForm& form, const TokenTemplate& tokens,
                              const SpecialIds& ids) {
  ordered_json vocabulary = ordered_json::object();
  for (std::size_t id = 0; id < parts.vocabulary.size(); ++id) vocabulary[parts.vocabulary[id]] = id;
  const ordered_json document = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens_json(parts.added)},
      {"normalizer", nullptr},
      {"pre_tokenizer", pre_tokenizer_of(parts.vocabulary)},
      {"post_processor", template_processing(form.single, form.pair, tokens, ids)},
      {"decoder", nullptr},
      {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", form.unknown}}}};
  return core::json_text(document, 1) + "\n";
}

}  // namespace bert_hpc::tokenize
