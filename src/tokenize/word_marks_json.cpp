// Components that this program does not compute are named as problems; the decoder is not read.
#include "word_marks_json.hpp"

#include <algorithm>
#include <iterator>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "character_map.hpp"
#include "json_sections.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Problems = std::vector<std::string>;

/// Steps that replace what a regular expression finds.
struct PatternStep {
  TextStep::Kind kind;
  const char* regex;
};
constexpr PatternStep pattern_steps[] = {{TextStep::Kind::merge_runs, " {2,}"},
                                         {TextStep::Kind::merge_blanks, R"(\s{2,}|[\n\r\t])"}};

/// Steps without settings, by their type.
struct PlainStep {
  TextStep::Kind kind;
  const char* type;
};
constexpr PlainStep plain_steps[] = {{TextStep::Kind::compose, "NFC"},
                                     {TextStep::Kind::decompose, "NFKD"},
                                     {TextStep::Kind::strip_accents, "StripAccents"},
                                     {TextStep::Kind::lowercase, "Lowercase"}};

struct MarkName {
  WordMark mark;
  const char* name;
};
constexpr MarkName mark_names[] = {
    {WordMark::always, "always"}, {WordMark::first, "first"}, {WordMark::never, "never"}};

/// What a Replace may look for, for messages.
std::string known_patterns() {
  std::vector<std::string> patterns = {"texts"};
  for (const PatternStep& one : pattern_steps) patterns.push_back(shown(one.regex));
  return core::listed(patterns, "and", false);
}

void read_normalizer(const json& given, MarkedForm& form, const char* model, Problems& problems) {
  for (const json& element : elements_of(given, "normalizers")) {
    const auto* const plain = std::find_if(std::begin(plain_steps), std::end(plain_steps),
                                           [&](const PlainStep& one) { return has_type(element, one.type); });
    if (plain != std::end(plain_steps)) {
      form.marks.steps.push_back({.kind = plain->kind});
    } else if (has_type(element, "Precompiled")) {
      const json& map = member(element, "precompiled_charsmap");
      if (map.is_null() || map == "") continue;
      std::string problem = "its precompiled_charsmap is no base64.";
      if (const auto bytes = map.is_string() ? base64_bytes(map.get_ref<const std::string&>()) : std::nullopt) {
        problem.clear();
        const CharacterMap checked(*bytes, problem);
      }
      if (!form.character_map.empty()) problem = "its normalizer has two tables of characters.";
      if (!problem.empty()) problems.push_back(problem);
      if (problem.empty()) form.character_map = map.get<std::string>();
      form.marks.steps.push_back({.kind = TextStep::Kind::map});
    } else if (has_type(element, "Strip")) {
      form.marks.steps.push_back({.kind = TextStep::Kind::strip,
                                  .left = is_on(element, "strip_left", true),
                                  .right = is_on(element, "strip_right", true)});
    } else if (has_type(element, "Prepend") && member(element, "prepend").is_string()) {
      form.marks.steps.push_back(
          {.kind = TextStep::Kind::prepend, .to = member(element, "prepend").get<std::string>()});
    } else if (has_type(element, "Replace") && member(element, "content").is_string()) {
      const json& pattern = member(element, "pattern");
      const json &text = member(pattern, "String"), &regex = member(pattern, "Regex");
      const std::string content = member(element, "content").get<std::string>();
      const auto* const known = std::find_if(std::begin(pattern_steps), std::end(pattern_steps),
                                             [&](const PatternStep& one) { return regex == one.regex; });
      if (known != std::end(pattern_steps)) {
        form.marks.steps.push_back({.kind = known->kind, .to = content});
      } else if (text.is_string() && !text.get_ref<const std::string&>().empty()) {
        form.marks.steps.push_back({.kind = TextStep::Kind::replace, .from = text.get<std::string>(), .to = content});
      } else {
        problems.push_back("its normalizer replaces " + shown(pattern) + "; this version reads " + known_patterns() +
                           ".");
      }
    } else {
      problems.push_back(
          "its normalizer is " + type_of(element) +
          "; this version reads Lowercase, NFC, NFKD, Precompiled, Prepend, Replace, Strip and StripAccents before " +
          model + ".");
    }
  }
}

/// {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false}
const json& split_behind_spaces() {
  static const json split = {
      {"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  return split;
}

void read_metaspace(const json& metaspace, WordMarks& marks, Problems& problems) {
  if (member(metaspace, "replacement") != std::string(word_mark)) {
    problems.push_back("its pre_tokenizer marks words with " + shown(member(metaspace, "replacement")) +
                       "; this version reads \"▁\".");
  }
  marks.splits_marks = is_on(metaspace, "split", true);
  const json& scheme = member(metaspace, "prepend_scheme");
  marks.mark = is_on(metaspace, "add_prefix_space", true) ? WordMark::always : WordMark::never;
  if (scheme.is_null()) return;
  const auto* const known = std::find_if(std::begin(mark_names), std::end(mark_names),
                                         [&](const MarkName& one) { return scheme == one.name; });
  if (known != std::end(mark_names)) {
    marks.mark = known->mark;
  } else {
    problems.push_back("its pre_tokenizer has the prepend_scheme " + shown(scheme) + ", which this version lacks.");
  }
}

/// Reads what stands before a Metaspace; false if that is not computed.
bool read_splits(const std::vector<json>& elements, WordMarks& marks) {
  for (const json& element : elements) {
    const json& behavior = member(element, "behavior");
    if (has_type(element, "WhitespaceSplit")) {
      marks.splits_blanks = true;
    } else if (has_type(element, "Punctuation") && (behavior.is_null() || behavior == "Isolated")) {
      marks.splits_punctuation = true;
    } else {
      return false;
    }
  }
  return true;
}

void read_pre_tokenizer(const json& given, WordMarks& marks, const char* model, bool needs_metaspace,
                        Problems& problems) {
  const std::vector<json> elements = elements_of(given, "pretokenizers");
  marks.has_metaspace = !elements.empty() && has_type(elements.back(), "Metaspace");
  const bool reads_splits = marks.has_metaspace && read_splits({elements.begin(), elements.end() - 1}, marks);
  marks.splits_spaces = !needs_metaspace && elements.size() == 1 && elements[0] == split_behind_spaces();
  const bool is_none = !needs_metaspace && elements.empty();
  if (reads_splits) return read_metaspace(elements.back(), marks, problems);
  if (is_none || marks.splits_spaces) return;
  std::string names;
  for (const json& element : elements) names += (names.empty() ? "" : ", ") + type_of(element);
  problems.push_back("its pre_tokenizer is " + (names.empty() ? "missing" : names) +
                     "; this version reads Metaspace, alone or behind WhitespaceSplit and Punctuation (Isolated), " +
                     (needs_metaspace ? "" : "or a Split at \" \" with the behavior MergedWithPrevious, or none, ") +
                     "before " + model + ".");
}

void read_post_processor(const json& given, MarkedForm& form, const char* model, Problems& problems) {
  for (const json& element : elements_of(given, "processors")) {
    if (!has_type(element, "TemplateProcessing")) {
      problems.push_back("its post_processor is " + type_of(element) +
                         "; this version reads TemplateProcessing behind " + model + ".");
      continue;
    }
    form.single = member(element, "single");
    form.pair = member(element, "pair");
  }
  std::string problem;
  if (!template_of(form.single, form.pair, problem)) problems.push_back("its post_processor " + problem);
}

}  // namespace

const char* name_of(WordMark of) {
  for (const MarkName& one : mark_names) {
    if (one.mark == of) return one.name;
  }
  return "";
}

MarkedForm read_marked_form(const json& document, const char* model, bool needs_metaspace, Problems& problems) {
  MarkedForm form;
  read_normalizer(member(document, "normalizer"), form, model, problems);
  read_pre_tokenizer(member(document, "pre_tokenizer"), form.marks, model, needs_metaspace, problems);
  read_post_processor(member(document, "post_processor"), form, model, problems);
  return form;
}

namespace {

ordered_json normalizer_of(const MarkedForm& form) {
  ordered_json elements = ordered_json::array();
  for (const TextStep& step : form.marks.steps) {
    for (const PlainStep& plain : plain_steps) {
      if (step.kind == plain.kind) elements.push_back({{"type", plain.type}});
    }
    for (const PatternStep& known : pattern_steps) {
      if (step.kind != known.kind) continue;
      elements.push_back({{"type", "Replace"}, {"pattern", {{"Regex", known.regex}}}, {"content", step.to}});
    }
    switch (step.kind) {
      case TextStep::Kind::map:
        elements.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", form.character_map}});
        break;
      case TextStep::Kind::strip:
        elements.push_back({{"type", "Strip"}, {"strip_left", step.left}, {"strip_right", step.right}});
        break;
      case TextStep::Kind::prepend:
        elements.push_back({{"type", "Prepend"}, {"prepend", step.to}});
        break;
      case TextStep::Kind::replace:
        elements.push_back({{"type", "Replace"}, {"pattern", {{"String", step.from}}}, {"content", step.to}});
        break;
      default:
        break;
    }
  }
  if (elements.empty()) return nullptr;
  if (elements.size() == 1) return elements.front();
  return {{"type", "Sequence"}, {"normalizers", elements}};
}

ordered_json pre_tokenizer_of(const WordMarks& marks) {
  if (marks.splits_spaces) return split_behind_spaces();
  if (!marks.has_metaspace) return nullptr;
  const ordered_json metaspace = {{"type", "Metaspace"},
                                  {"replacement", std::string(word_mark)},
                                  {"prepend_scheme", name_of(marks.mark)},
                                  {"split", marks.splits_marks}};
  ordered_json elements = ordered_json::array();
  if (marks.splits_blanks) elements.push_back({{"type", "WhitespaceSplit"}});
  if (marks.splits_punctuation) elements.push_back({{"type", "Punctuation"}, {"behavior", "Isolated"}});
  if (elements.empty()) return metaspace;
  elements.push_back(metaspace);
  return {{"type", "Sequence"}, {"pretokenizers", elements}};
}

}  // namespace

ordered_json marked_document(const MarkedForm& form, const std::vector<AddedToken>& added, const TokenTemplate& tokens,
                             const SpecialIds& ids) {
  const bool has_template = !form.single.empty() || !form.pair.empty();
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens_json(added)},
          {"normalizer", normalizer_of(form)},
          {"pre_tokenizer", pre_tokenizer_of(form.marks)},
          {"post_processor", has_template ? template_processing(form.single, form.pair, tokens, ids) : ordered_json()}};
}

json sections_of(const MarkedForm& form) {
  json steps = json::array();
  for (const TextStep& step : form.marks.steps) {
    steps.push_back({{"kind", static_cast<int>(step.kind)},
                     {"left", step.left},
                     {"right", step.right},
                     {"from", step.from},
                     {"to", step.to}});
  }
  return {{"character_map", form.character_map},
          {"steps", steps},
          {"splits_blanks", form.marks.splits_blanks},
          {"splits_punctuation", form.marks.splits_punctuation},
          {"splits_spaces", form.marks.splits_spaces},
          {"has_metaspace", form.marks.has_metaspace},
          {"splits_marks", form.marks.splits_marks},
          {"mark", static_cast<int>(form.marks.mark)},
          {"single", form.single},
          {"pair", form.pair}};
}

MarkedForm marked_form_of(const json& sections) {
  MarkedForm form{.character_map = sections.at("character_map").get<std::string>(),
                  .marks = {.splits_blanks = sections.at("splits_blanks").get<bool>(),
                            .splits_punctuation = sections.at("splits_punctuation").get<bool>(),
                            .splits_spaces = sections.at("splits_spaces").get<bool>(),
                            .has_metaspace = sections.at("has_metaspace").get<bool>(),
                            .splits_marks = sections.at("splits_marks").get<bool>(),
                            .mark = static_cast<WordMark>(sections.at("mark").get<int>())},
                  .single = sections.at("single"),
                  .pair = sections.at("pair")};
  for (const json& step : sections.at("steps")) {
    form.marks.steps.push_back({.kind = static_cast<TextStep::Kind>(step.at("kind").get<int>()),
                                .left = step.at("left").get<bool>(),
                                .right = step.at("right").get<bool>(),
                                .from = step.at("from").get<std::string>(),
                                .to = step.at("to").get<std::string>()});
  }
  return form;
}

WordMarks marks_of(const MarkedForm& form, const std::string& source) {
  WordMarks marks = form.marks;
  std::string problem;
  const auto map = base64_bytes(form.character_map);
  marks.map = std::make_shared<CharacterMap>(map.value_or(""), problem);
  if (map && problem.empty()) return marks;
  throw core::Error(core::ExitCode::data, source + ": its precompiled_charsmap is damaged.");
}

}  // namespace bert_hpc::tokenize
