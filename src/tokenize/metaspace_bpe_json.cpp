#include "metaspace_bpe_json.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bpe_json.hpp"
#include "json_sections.hpp"

namespace bert_hpc::tokenize {

using nlohmann::json;
using nlohmann::ordered_json;

void read_metaspace_bpe_json(TokenizerDocument& document, TokenizerJson& result) {
  const json& model = member(document.json, "model");
  TokenizerParts& parts = result.parts;
  MetaspaceBpeForm form;
  check_bpe_model(model, "this kind of BPE", result.problems);
  form.text = read_marked_form(document.json, "BPE", false, result.problems);
  form.fuse_unk = is_on(model, "fuse_unk", false);
  form.byte_fallback = is_on(model, "byte_fallback", false);
  form.ignore_merges = is_on(model, "ignore_merges", false);
  take_bpe_parts(document, true, result);
  const json& unknown = member(model, "unk_token");
  if (unknown.is_string()) form.unknown = unknown.get<std::string>();
  const bool has_unknown =
      std::find(parts.vocabulary.begin(), parts.vocabulary.end(), form.unknown) != parts.vocabulary.end();
  if (!form.unknown.empty() && !parts.vocabulary.empty() && !has_unknown) {
    result.problems.push_back("model.unk_token is " + shown(unknown) + ", which the vocabulary lacks.");
  }
  parts.added = read_added_tokens(member(document.json, "added_tokens"), result.problems);
  if (!parts.vocabulary.empty()) {
    check_template_ids(member(document.json, "post_processor"), parts.vocabulary, parts.added, result.problems);
  }
  parts.sections = text_of(form);
}

std::string metaspace_bpe_json_text(const TokenizerParts& parts, const MetaspaceBpeForm& form,
                                    const TokenTemplate& tokens, const SpecialIds& ids) {
  ordered_json document = marked_document(form.text, parts.added, tokens, ids);
  const ordered_json blanks = {
      {"type", "Replace"}, {"pattern", {{"String", std::string(word_mark)}}}, {"content", " "}};
  ordered_json decoders = ordered_json::array();
  decoders.push_back(blanks);
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  document["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  document["model"] = {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", form.unknown.empty() ? ordered_json() : ordered_json(form.unknown)},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", form.fuse_unk},
                       {"byte_fallback", form.byte_fallback},
                       {"ignore_merges", form.ignore_merges},
                       {"vocab", ordered_json::object()},
                       {"merges", parts.merges}};
  return text_with_vocabulary(document, parts.vocabulary);
}

std::string text_of(const MetaspaceBpeForm& form) {
  return core::json_text(json{{"unknown", form.unknown},
                              {"fuse_unk", form.fuse_unk},
                              {"byte_fallback", form.byte_fallback},
                              {"ignore_merges", form.ignore_merges},
                              {"text", sections_of(form.text)}});
}

MetaspaceBpeForm metaspace_bpe_form_of(const std::string& sections) {
  const json given = core::parse_json(sections);
  core::require(given.is_object(), "sections of a BPE tokenizer are JSON");
  return {.unknown = given.at("unknown").get<std::string>(),
          .fuse_unk = given.at("fuse_unk").get<bool>(),
          .byte_fallback = given.at("byte_fallback").get<bool>(),
          .ignore_merges = given.at("ignore_merges").get<bool>(),
          .text = marked_form_of(given.at("text"))};
}

}  // namespace bert_hpc::tokenize
