// The sections in the order in which Hugging Face's tokenizers library writes them. Merges are texts, "left right",
// which older versions of the library read too.
#include "bert_hpc/core/json.hpp"
#include "byte_bpe_json.hpp"
#include "json_sections.hpp"
#include "template_json.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::ordered_json;

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

std::string vocabulary_json_text(const std::vector<std::string>& vocabulary) {
  return "{" + entry_lines(vocabulary, "") + "}\n";
}

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
  // The vocabulary goes into the text, as a key of an ordered object takes time in proportion to those before it.
  std::string text = core::json_text(document, 2);
  const std::string key = "\"vocab\": {";
  text.insert(text.rfind(key) + key.size(), entry_lines(file.parts.vocabulary, "      ") + "    ");
  return text;
}

}  // namespace bert_hpc::tokenize
