// Components that this program does not compute are named as problems; switches that change no ids, such as those of
// the decoder, are not read.
#include "byte_bpe_json.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "json_sections.hpp"
#include "template_json.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;
using Problems = std::vector<std::string>;

constexpr const char* gpt2_regex = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void check_bpe_model(const json& model, ByteBpeForm& form, Problems& problems) {
  const auto must_be_empty = [&](const char* key) {
    const json& value = member(model, key);
    if (value.is_null() || value == "" || (value.is_number() && value == 0)) return;
    problems.push_back("model." + std::string(key) + " is " + shown(value) + "; byte-level BPE has none.");
  };
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) must_be_empty(key);
  form.ignore_merges = is_on(model, "ignore_merges", false);
  if (!model.contains("merges")) problems.push_back("model.merges is missing; BPE needs its merges.");
}

void read_pre_tokenizer(const json& given, ByteBpeForm& form, TokenizerSettings& settings, Problems& problems) {
  const std::vector<json> elements = elements_of(given, "pretokenizers");
  const bool split = elements.size() == 2 && has_type(elements[0], "Split");
  if (elements.empty() || !has_type(elements.back(), "ByteLevel") || (elements.size() > 1 && !split)) {
    std::string names;
    for (const json& element : elements) names += (names.empty() ? "" : ", ") + type_of(element);
    problems.push_back("its pre_tokenizer is " + (names.empty() ? "missing" : names) +
                       "; this version reads ByteLevel, alone or behind a Split.");
    return;
  }
  const json& bytes = elements.back();
  settings[add_prefix_space_key] = is_on(bytes, "add_prefix_space", true);
  const bool by_itself = is_on(bytes, "use_regex", true);
  if (!split) {
    form.pattern = by_itself ? WordPattern::gpt2 : WordPattern::whole;
    return;
  }
  const json& regex = member(member(elements[0], "pattern"), "Regex");
  const auto known = std::find_if(split_patterns.begin(), split_patterns.end(),
                                  [&](const NamedPattern& pattern) { return regex == pattern.regex; });
  const bool isolates = member(elements[0], "behavior") == "Isolated" && !is_on(elements[0], "invert", false);
  if (by_itself || settings[add_prefix_space_key] || !isolates ||
      (known == split_patterns.end() && regex != gpt2_regex)) {
    problems.push_back("its pre_tokenizer splits with " + shown(elements[0]) +
                       "; this version reads the patterns of GPT-2, GPT-4 (Llama 3) and Qwen 2 with the behavior "
                       "Isolated, before a ByteLevel with use_regex = false and add_prefix_space = false.");
    return;
  }
  form.pattern = known == split_patterns.end() ? WordPattern::gpt2 : known->pattern;
}

/// {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2], …} as the lists of a TemplateProcessing.
void read_roberta(const json& processor, ByteBpeForm& form, Problems& problems) {
  const json& cls = member(processor, "cls");
  const json& sep = member(processor, "sep");
  if (!cls.is_array() || cls.empty() || !cls[0].is_string() || !sep.is_array() || sep.empty() || !sep[0].is_string()) {
    problems.push_back("its post_processor is " + shown(processor) + ", whose cls and sep are no tokens with ids.");
    return;
  }
  const auto list = [&](bool pair) {
    const auto name = [&](std::int32_t SpecialIds::*role) {
      return (role == &SpecialIds::cls ? cls : sep)[0].get<std::string>();
    };
    return template_list<json>(roberta_sequence(), pair, name);
  };
  form.single = list(false);
  form.pair = list(true);
}

void read_post_processor(const json& given, ByteBpeForm& form, TokenizerSettings& settings, Problems& problems) {
  settings[trim_offsets_key] = false;
  const bool prefix = settings.contains(add_prefix_space_key) && settings[add_prefix_space_key];
  for (const json& element : elements_of(given, "processors")) {
    const bool roberta = has_type(element, "RobertaProcessing"), bytes = has_type(element, "ByteLevel");
    if (roberta || bytes) {
      settings[trim_offsets_key] = is_on(element, "trim_offsets", true);
      const bool expects = is_on(element, "add_prefix_space", true);
      if (expects != prefix) form.trimming_expects_prefix = expects;
      if (roberta) read_roberta(element, form, problems);
    } else if (has_type(element, "TemplateProcessing")) {
      form.single = member(element, "single");
      form.pair = member(element, "pair");
    } else {
      problems.push_back("its post_processor is " + type_of(element) +
                         "; this version reads RobertaProcessing, TemplateProcessing and ByteLevel.");
    }
  }
  std::string problem;
  if (!template_of(form.single, form.pair, problem)) problems.push_back("its post_processor " + problem);
}

}  // namespace

AddedToken roberta_token(std::int32_t SpecialIds::*role) {
  const bool is_mask = role == &SpecialIds::mask;
  const char* const content = role == &SpecialIds::cls   ? "<s>"
                              : role == &SpecialIds::pad ? "<pad>"
                              : role == &SpecialIds::sep ? "</s>"
                              : role == &SpecialIds::unk ? "<unk>"
                                                         : "<mask>";
  return {.content = content, .lstrip = is_mask, .special = true};
}

ByteBpeForm roberta_form() {
  ByteBpeForm form;
  const auto name = [](std::int32_t SpecialIds::*role) { return roberta_token(role).content; };
  form.single = template_list<json>(roberta_sequence(), false, name);
  form.pair = template_list<json>(roberta_sequence(), true, name);
  return form;
}

std::string text_of(const ByteBpeForm& form) {
  json sections = {{"pattern", static_cast<int>(form.pattern)},
                   {"ignore_merges", form.ignore_merges},
                   {"single", form.single},
                   {"pair", form.pair}};
  if (form.trimming_expects_prefix) sections["trimming_expects_prefix"] = *form.trimming_expects_prefix;
  return core::json_text(sections);
}

ByteBpeForm byte_bpe_form_of(const std::string& sections) {
  if (sections.empty()) return roberta_form();
  const json given = core::parse_json(sections);
  core::require(given.is_object(), "sections of a byte-level BPE tokenizer are JSON");
  ByteBpeForm form;
  form.pattern = static_cast<WordPattern>(given.at("pattern").get<int>());
  form.ignore_merges = given.at("ignore_merges").get<bool>();
  form.single = given.at("single");
  form.pair = given.at("pair");
  const json& expects = member(given, "trimming_expects_prefix");
  if (expects.is_boolean()) form.trimming_expects_prefix = expects.get<bool>();
  return form;
}

namespace {

/// An element of a template list.
struct TemplatePart {
  bool is_text = false;
  std::string name;
  int type = 0;
};

std::optional<std::vector<TemplatePart>> parts_of(const json& list) {
  std::vector<TemplatePart> parts;
  if (!list.is_array()) return std::nullopt;
  for (const json& element : list) {
    const bool is_text = element.is_object() && element.contains("Sequence");
    const json& content = member(element, is_text ? "Sequence" : "SpecialToken");
    const json &id = member(content, "id"), &type = member(content, "type_id");
    if (!id.is_string() || !type.is_number_integer() || type < 0 || type > 1) return std::nullopt;
    parts.push_back({is_text, id.get<std::string>(), type.get<int>()});
  }
  return parts;
}

}  // namespace

std::optional<TokenTemplate> template_of(const json& single, const json& pair, std::string& problem) {
  TokenTemplate found;
  if (single.is_array() && single.empty() && pair.is_array() && pair.empty()) return found;
  problem = "has the template " + shown(single) + " and " + shown(pair) +
            "; this version reads templates of a text, or of two, with at most two different special tokens.";
  const auto one = parts_of(single), two = parts_of(pair);
  if (!one || !two) return std::nullopt;
  const auto is_text = [](const char* name) {
    return [name](const TemplatePart& part) { return part.is_text && part.name == name; };
  };
  const auto is_any_text = [](const TemplatePart& part) { return part.is_text; };
  const auto a1 = std::find_if(one->begin(), one->end(), is_text("A")),
             a2 = std::find_if(two->begin(), two->end(), is_text("A"));
  const auto b2 = std::find_if(two->begin(), two->end(), is_text("B"));
  const bool in_order = a1 != one->end() && a2 != two->end() && b2 != two->end() && a2 < b2 &&
                        std::count_if(one->begin(), one->end(), is_any_text) == 1 &&
                        std::count_if(two->begin(), two->end(), is_any_text) == 2;
  if (!in_order) return std::nullopt;
  bool good = true;
  // Takes the parts over as roles: the first token before a text is cls, another one is sep.
  const auto take = [&](auto begin, auto end, SequenceTemplate::Roles& roles, int type, bool before) {
    for (auto part = begin; part != end; ++part) {
      good = good && part->type == type;
      if (before && found.cls.empty()) found.cls = part->name;
      if (part->name == found.cls) {
        roles.push_back(&SpecialIds::cls);
        continue;
      }
      if (found.sep.empty()) found.sep = part->name;
      good = good && part->name == found.sep;
      roles.push_back(&SpecialIds::sep);
    }
  };
  SequenceTemplate& sequence = found.sequence;
  SequenceTemplate::Roles before;
  take(one->begin(), a1, sequence.before, 0, true);
  take(a1 + 1, one->end(), sequence.after, 0, false);
  take(two->begin(), a2, before, 0, true);
  const int between_type = a2 + 1 < b2 ? (a2 + 1)->type : 0;
  take(a2 + 1, b2, sequence.between, between_type, false);
  take(b2 + 1, two->end(), sequence.after_pair, b2->type, false);
  sequence.between_type = static_cast<std::uint8_t>(between_type);
  sequence.second_type = static_cast<std::uint8_t>(b2->type);
  good = good && a1->type == 0 && a2->type == 0 && before == sequence.before;
  // Without special tokens texts have one token type: GPT-2 has no types.
  if (found.cls.empty() && found.sep.empty()) sequence.second_type = 0;
  if (!good) return std::nullopt;
  problem.clear();
  return found;
}

void read_byte_bpe_json(TokenizerDocument& document, TokenizerJson& result) {
  const json& model = member(document.json, "model");
  TokenizerParts& parts = result.parts;
  ByteBpeForm form;
  check_bpe_model(model, form, result.problems);
  const json& normalizer = member(document.json, "normalizer");
  for (const json& element : elements_of(normalizer, "normalizers")) {
    result.problems.push_back("its normalizer is " + type_of(element) +
                              "; this version reads byte-level BPE without one.");
  }
  read_pre_tokenizer(member(document.json, "pre_tokenizer"), form, parts.settings, result.problems);
  read_post_processor(member(document.json, "post_processor"), form, parts.settings, result.problems);
  parts.vocabulary = pieces_of(document, result.vocabulary_problem);
  parts.merges = std::move(document.merges);
  const auto broken = std::find(parts.merges.begin(), parts.merges.end(), "");
  if (broken != parts.merges.end()) {
    result.vocabulary_problem = "model.merges has the element " + std::to_string(broken - parts.merges.begin()) +
                                ", which is no pair of tokens.";
    parts.merges.clear();
    parts.vocabulary.clear();
  }
  parts.added = read_added_tokens(member(document.json, "added_tokens"), result.problems);
  if (!parts.vocabulary.empty()) {
    check_template_ids(member(document.json, "post_processor"), parts.vocabulary, parts.added, result.problems);
  }
  parts.sections = text_of(form);
}

}  // namespace bert_hpc::tokenize
