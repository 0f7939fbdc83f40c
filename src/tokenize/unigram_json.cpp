// Components that this program does not compute are named as problems; the decoder is not read.
#include "unigram_json.hpp"

#include <cmath>
#include <unordered_set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "character_map.hpp"
#include "json_sections.hpp"
#include "template_json.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Problems = std::vector<std::string>;

constexpr const char* runs_of_spaces = " {2,}";
constexpr const char* mark = "\xE2\x96\x81";  // "▁"

struct MarkName {
  UnigramMark mark;
  const char* name;
};
constexpr MarkName mark_names[] = {
    {UnigramMark::always, "always"}, {UnigramMark::first, "first"}, {UnigramMark::never, "never"}};

const char* name_of(UnigramMark of) {
  for (const MarkName& one : mark_names) {
    if (one.mark == of) return one.name;
  }
  return "";
}

void read_normalizer(const json& given, UnigramForm& form, Problems& problems) {
  for (const json& element : elements_of(given, "normalizers")) {
    if (has_type(element, "Precompiled")) {
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
      form.steps.push_back({.kind = UnigramStep::Kind::map});
    } else if (has_type(element, "Strip")) {
      form.steps.push_back({.kind = UnigramStep::Kind::strip,
                            .left = is_on(element, "strip_left", true),
                            .right = is_on(element, "strip_right", true)});
    } else if (has_type(element, "Replace") && member(element, "content").is_string()) {
      const json& pattern = member(element, "pattern");
      const json &text = member(pattern, "String"), &regex = member(pattern, "Regex");
      const std::string content = member(element, "content").get<std::string>();
      if (regex == runs_of_spaces) {
        form.steps.push_back({.kind = UnigramStep::Kind::merge_runs, .to = content});
      } else if (text.is_string() && !text.get_ref<const std::string&>().empty()) {
        form.steps.push_back({.kind = UnigramStep::Kind::replace, .from = text.get<std::string>(), .to = content});
      } else {
        problems.push_back("its normalizer replaces " + shown(pattern) + "; this version reads texts and \" {2,}\".");
      }
    } else {
      problems.push_back("its normalizer is " + type_of(element) +
                         "; this version reads Precompiled, Strip and Replace before Unigram.");
    }
  }
}

void read_pre_tokenizer(const json& given, UnigramForm& form, Problems& problems) {
  const std::vector<json> elements = elements_of(given, "pretokenizers");
  form.splits_blanks = elements.size() == 2 && has_type(elements[0], "WhitespaceSplit");
  if (elements.empty() || !has_type(elements.back(), "Metaspace") || (elements.size() > 1 && !form.splits_blanks)) {
    std::string names;
    for (const json& element : elements) names += (names.empty() ? "" : ", ") + type_of(element);
    problems.push_back("its pre_tokenizer is " + (names.empty() ? "missing" : names) +
                       "; this version reads Metaspace, alone or behind WhitespaceSplit, before Unigram.");
    return;
  }
  const json& metaspace = elements.back();
  if (member(metaspace, "replacement") != mark) {
    problems.push_back("its pre_tokenizer marks words with " + shown(member(metaspace, "replacement")) +
                       "; this version reads \"▁\".");
  }
  form.splits_marks = is_on(metaspace, "split", true);
  const json& scheme = member(metaspace, "prepend_scheme");
  form.mark = is_on(metaspace, "add_prefix_space", true) ? UnigramMark::always : UnigramMark::never;
  if (scheme.is_null()) return;
  const auto* const known = std::find_if(std::begin(mark_names), std::end(mark_names),
                                         [&](const MarkName& one) { return scheme == one.name; });
  if (known != std::end(mark_names)) {
    form.mark = known->mark;
  } else {
    problems.push_back("its pre_tokenizer has the prepend_scheme " + shown(scheme) + ", which this version lacks.");
  }
}

void read_post_processor(const json& given, UnigramForm& form, Problems& problems) {
  for (const json& element : elements_of(given, "processors")) {
    if (!has_type(element, "TemplateProcessing")) {
      problems.push_back("its post_processor is " + type_of(element) +
                         "; this version reads TemplateProcessing behind Unigram.");
      continue;
    }
    form.single = member(element, "single");
    form.pair = member(element, "pair");
  }
  std::string problem;
  if (!template_of(form.single, form.pair, problem)) problems.push_back("its post_processor " + problem);
}

/// Pieces and scores by id; none, and a problem, for other lists.
std::vector<std::string> pieces_of(TokenizerDocument& document, UnigramForm& form, std::string& problem) {
  std::vector<std::string> pieces;
  if (document.too_many_entries) {
    problem = "has more than " + core::with_commas(max_entries) + " entries.";
  } else if (document.scored.empty()) {
    problem = "is missing or empty, or is no list of pieces and scores.";
  } else {
    pieces = take_pieces(document.scored, form, problem);
  }
  if (!problem.empty()) problem = "model.vocab " + problem;
  return pieces;
}

}  // namespace

std::vector<std::string> take_pieces(std::vector<ScoredPiece>& pieces, UnigramForm& form, std::string& problem) {
  std::vector<std::string> texts;
  std::unordered_set<std::string> seen;
  for (ScoredPiece& piece : pieces) {
    const std::string name = '"' + core::printable(piece.piece, 80) + '"';
    if (!piece.is_valid || !std::isfinite(piece.score)) {
      problem = "has the element " + std::to_string(texts.size()) + ", which is no piece with its score.";
    } else if (piece.piece.empty() || piece.piece.find_first_of("\r\n") != std::string::npos ||
               piece.piece.find('\0') != std::string::npos) {
      problem = "has the piece " + name + ", which is empty or holds a line end or a zero byte.";
    } else if (!seen.insert(piece.piece).second) {
      problem = "has the piece " + name + " twice.";
    }
    if (!problem.empty()) {
      form.scores.clear();
      return {};
    }
    form.scores.push_back(piece.score);
    texts.push_back(std::move(piece.piece));
  }
  return texts;
}

void read_unigram_json(TokenizerDocument& document, TokenizerJson& result) {
  const json& model = member(document.json, "model");
  UnigramForm form;
  TokenizerParts& parts = result.parts;
  form.byte_fallback = is_on(model, "byte_fallback", false);
  read_normalizer(member(document.json, "normalizer"), form, result.problems);
  read_pre_tokenizer(member(document.json, "pre_tokenizer"), form, result.problems);
  read_post_processor(member(document.json, "post_processor"), form, result.problems);
  parts.vocabulary = pieces_of(document, form, result.vocabulary_problem);
  const json& unknown = member(model, "unk_id");
  const bool is_id = unknown.is_number_integer() && unknown >= 0 && unknown < std::ssize(parts.vocabulary);
  if (is_id) form.unknown = unknown.get<std::int32_t>();
  if (!is_id && !parts.vocabulary.empty()) {
    result.problems.push_back("model.unk_id is " + shown(unknown) + ", which is no id of the vocabulary.");
  }
  parts.added = read_added_tokens(member(document.json, "added_tokens"), result.problems);
  if (!parts.vocabulary.empty()) {
    check_template_ids(member(document.json, "post_processor"), parts.vocabulary, parts.added, result.problems);
  }
  parts.sections = text_of(form);
}

namespace {

ordered_json normalizer_of(const UnigramForm& form) {
  ordered_json elements = ordered_json::array();
  for (const UnigramStep& step : form.steps) {
    switch (step.kind) {
      case UnigramStep::Kind::map:
        elements.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", form.character_map}});
        break;
      case UnigramStep::Kind::strip:
        elements.push_back({{"type", "Strip"}, {"strip_left", step.left}, {"strip_right", step.right}});
        break;
      case UnigramStep::Kind::merge_runs:
        elements.push_back({{"type", "Replace"}, {"pattern", {{"Regex", runs_of_spaces}}}, {"content", step.to}});
        break;
      case UnigramStep::Kind::replace:
        elements.push_back({{"type", "Replace"}, {"pattern", {{"String", step.from}}}, {"content", step.to}});
        break;
    }
  }
  if (elements.empty()) return nullptr;
  if (elements.size() == 1) return elements.front();
  return {{"type", "Sequence"}, {"normalizers", elements}};
}

ordered_json pre_tokenizer_of(const UnigramForm& form) {
  const ordered_json metaspace = {{"type", "Metaspace"},
                                  {"replacement", mark},
                                  {"prepend_scheme", name_of(form.mark)},
                                  {"split", form.splits_marks}};
  if (!form.splits_blanks) return metaspace;
  ordered_json both = ordered_json::array();
  both.push_back({{"type", "WhitespaceSplit"}});
  both.push_back(metaspace);
  return {{"type", "Sequence"}, {"pretokenizers", both}};
}

}  // namespace

std::string unigram_json_text(const TokenizerParts& parts, const UnigramForm& form, const TokenTemplate& tokens,
                              const SpecialIds& ids) {
  const bool has_template = !form.single.empty() || !form.pair.empty();
  ordered_json vocabulary = ordered_json::array();
  for (std::size_t id = 0; id < parts.vocabulary.size(); ++id) {
    vocabulary.push_back(ordered_json::array({parts.vocabulary[id], form.scores[id]}));
  }
  const ordered_json document = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens_json(parts.added)},
      {"normalizer", normalizer_of(form)},
      {"pre_tokenizer", pre_tokenizer_of(form)},
      {"post_processor", has_template ? template_processing(form.single, form.pair, tokens, ids) : ordered_json()},
      {"decoder",
       {{"type", "Metaspace"}, {"replacement", mark}, {"prepend_scheme", name_of(form.mark)}, {"split", true}}},
      {"model",
       {{"type", "Unigram"}, {"unk_id", form.unknown}, {"vocab", vocabulary}, {"byte_fallback", form.byte_fallback}}}};
  return core::json_text(document, 1) + "\n";
}

std::string text_of(const UnigramForm& form) {
  json steps = json::array();
  for (const UnigramStep& step : form.steps) {
    steps.push_back({{"kind", static_cast<int>(step.kind)},
                     {"left", step.left},
                     {"right", step.right},
                     {"from", step.from},
                     {"to", step.to}});
  }
  return core::json_text(json{{"scores", form.scores},
                              {"unknown", form.unknown},
                              {"byte_fallback", form.byte_fallback},
                              {"character_map", form.character_map},
                              {"steps", steps},
                              {"splits_blanks", form.splits_blanks},
                              {"splits_marks", form.splits_marks},
                              {"mark", static_cast<int>(form.mark)},
                              {"single", form.single},
                              {"pair", form.pair}});
}

UnigramForm unigram_form_of(const std::string& sections) {
  const json given = core::parse_json(sections);
  core::require(given.is_object(), "sections of a Unigram tokenizer are JSON");
  UnigramForm form{.scores = given.at("scores").get<std::vector<double>>(),
                   .unknown = given.at("unknown").get<std::int32_t>(),
                   .byte_fallback = given.at("byte_fallback").get<bool>(),
                   .character_map = given.at("character_map").get<std::string>(),
                   .splits_blanks = given.at("splits_blanks").get<bool>(),
                   .splits_marks = given.at("splits_marks").get<bool>(),
                   .mark = static_cast<UnigramMark>(given.at("mark").get<int>()),
                   .single = given.at("single"),
                   .pair = given.at("pair")};
  for (const json& step : given.at("steps")) {
    form.steps.push_back({.kind = static_cast<UnigramStep::Kind>(step.at("kind").get<int>()),
                          .left = step.at("left").get<bool>(),
                          .right = step.at("right").get<bool>(),
                          .from = step.at("from").get<std::string>(),
                          .to = step.at("to").get<std::string>()});
  }
  return form;
}

}  // namespace bert_hpc::tokenize
