// Reading: components that this program does not compute are named as problems; switches that change no ids, such as
// those of the decoder, are not read.
#include "byte_bpe_json.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bpe_json.hpp"
#include "json_sections.hpp"
#include "template_json.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Problems = std::vector<std::string>;

constexpr const char* gpt2_regex = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void read_normalizer(const json& given, ByteBpeForm& form, Problems& problems) {
  for (const json& element : elements_of(given, "normalizers")) {
    form.composes = true;
    if (has_type(element, "NFC")) continue;
    problems.push_back("its normalizer is " + type_of(element) +
                       "; this version reads byte-level BPE with NFC or without a normalizer.");
  }
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
    return template_list(roberta_sequence(), pair, name);
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

ByteBpeForm roberta_form() {
  ByteBpeForm form;
  const auto name = [](std::int32_t SpecialIds::*role) { return roberta_token(role).content; };
  form.single = template_list(roberta_sequence(), false, name);
  form.pair = template_list(roberta_sequence(), true, name);
  return form;
}

std::string text_of(const ByteBpeForm& form) {
  json sections = {{"pattern", static_cast<int>(form.pattern)},
                   {"ignore_merges", form.ignore_merges},
                   {"single", form.single},
                   {"pair", form.pair}};
  if (form.composes) sections["normalizer"] = "NFC";
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
  form.composes = given.contains("normalizer");
  form.single = given.at("single");
  form.pair = given.at("pair");
  const json& expects = member(given, "trimming_expects_prefix");
  if (expects.is_boolean()) form.trimming_expects_prefix = expects.get<bool>();
  return form;
}

void read_byte_bpe_json(TokenizerDocument& document, TokenizerJson& result) {
  const json& model = member(document.json, "model");
  TokenizerParts& parts = result.parts;
  ByteBpeForm form;
  check_bpe_model(model, "byte-level BPE", result.problems);
  form.ignore_merges = is_on(model, "ignore_merges", false);
  read_normalizer(member(document.json, "normalizer"), form, result.problems);
  read_pre_tokenizer(member(document.json, "pre_tokenizer"), form, parts.settings, result.problems);
  read_post_processor(member(document.json, "post_processor"), form, parts.settings, result.problems);
  take_bpe_parts(document, false, result);
  parts.added = read_added_tokens(member(document.json, "added_tokens"), result.problems);
  if (!parts.vocabulary.empty()) {
    check_template_ids(member(document.json, "post_processor"), parts.vocabulary, parts.added, result.problems);
  }
  parts.sections = text_of(form);
}

// Writing: the sections in the order in which Hugging Face's tokenizers library writes them. Merges are texts, "left
// right", which older versions of the library read too.

namespace {

ordered_json pre_tokenizer_of(const ByteBpeFile& file) {
  const auto bytes = [&](bool use_regex) {
    return ordered_json{{"type", "ByteLevel"},
                        {"add_prefix_space", file.parts.settings.at(add_prefix_space_key)},
                        {"trim_offsets", true},
                        {"use_regex", use_regex}};
  };
  for (const NamedPattern& split : split_patterns) {
    if (file.form.pattern != split.pattern) continue;
    return {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"}, {"pattern", {{"Regex", split.regex}}}, {"behavior", "Isolated"}, {"invert", false}},
              bytes(false)}}};
  }
  return bytes(file.form.pattern == WordPattern::gpt2);
}

ordered_json post_processor_of(const ByteBpeFile& file) {
  const bool trims = file.parts.settings.at(trim_offsets_key);
  const bool expects = file.form.trimming_expects_prefix.value_or(file.parts.settings.at(add_prefix_space_key));
  if (file.tokens.sequence == roberta_sequence()) {
    return {{"type", "RobertaProcessing"},
            {"sep", {file.tokens.sep, file.ids.sep}},
            {"cls", {file.tokens.cls, file.ids.cls}},
            {"trim_offsets", trims},
            {"add_prefix_space", expects}};
  }
  const ordered_json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", expects}, {"trim_offsets", trims}, {"use_regex", true}};
  if (file.tokens.cls.empty() && file.tokens.sep.empty()) return bytes;
  const ordered_json tokens = template_processing(file.form.single, file.form.pair, file.tokens, file.ids);
  return {{"type", "Sequence"}, {"processors", {bytes, tokens}}};
}

}  // namespace

std::string byte_bpe_json_text(const ByteBpeFile& file) {
  const ordered_json document = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens_json(file.parts.added)},
      {"normalizer", file.form.composes ? ordered_json{{"type", "NFC"}} : ordered_json()},
      {"pre_tokenizer", pre_tokenizer_of(file)},
      {"post_processor", post_processor_of(file)},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", ""},
        {"end_of_word_suffix", ""},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", file.form.ignore_merges},
        {"vocab", ordered_json::object()},
        {"merges", file.parts.merges}}}};
  return text_with_vocabulary(document, file.parts.vocabulary);
}

}  // namespace bert_hpc::tokenize
