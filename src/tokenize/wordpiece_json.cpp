// Reading: each section of the file is compared with what WordPieceEncoder does; what differs becomes one of the
// problems.
#include "wordpiece_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"
#include "json_sections.hpp"
#include "template_json.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

void check_model(const json& model, std::vector<std::string>& problems) {
  const auto must_be = [&](const char* key, const json& only) {
    const json& value = member(model, key);
    if (value == only || (value.is_null() && key != std::string("unk_token"))) return;  // absent: the library's default
    problems.push_back("model." + std::string(key) + " is " + shown(value) + "; this version reads only " +
                       core::json_text(only) + ".");
  };
  must_be("unk_token", "[UNK]");
  must_be("continuing_subword_prefix", "##");
  must_be("max_input_chars_per_word", longest_word);
}

std::optional<TextForm> read_normalizer(const json& given, std::vector<std::string>& problems) {
  const json& normalizer = unwrapped(given, "normalizers");
  if (!has_type(normalizer, "BertNormalizer")) {
    problems.push_back("its normalizer is " + type_of(normalizer) + "; this version reads BertNormalizer.");
    return std::nullopt;
  }
  for (const char* key : {"clean_text", "handle_chinese_chars", "lowercase"}) {
    if (!member(normalizer, key).is_boolean()) {
      problems.push_back("normalizer." + std::string(key) + " is " + shown(member(normalizer, key)) +
                         "; it must be true or false.");
      return std::nullopt;
    }
  }
  if (!member(normalizer, "clean_text").get<bool>()) {
    problems.push_back("normalizer.clean_text is false; this version always drops control characters.");
  }
  const json& strips = member(normalizer, "strip_accents");
  TextForm form;
  form.lowercase = member(normalizer, "lowercase").get<bool>();
  form.tokenize_chinese_chars = member(normalizer, "handle_chinese_chars").get<bool>();
  form.strip_accents = strips.is_boolean() ? strips.get<bool>() : form.lowercase;
  return form;
}

void check_pre_tokenizer(const json& given, std::vector<std::string>& problems) {
  const json& pre_tokenizer = unwrapped(given, "pretokenizers");
  if (has_type(pre_tokenizer, "BertPreTokenizer")) return;
  problems.push_back("its pre_tokenizer is " + type_of(pre_tokenizer) + "; this version reads BertPreTokenizer.");
}

/// Whether the processor makes the layout's sequences, with the vocabulary's ids.
bool makes(const json& processor, const WordPieceLayout& layout, const std::vector<std::string>& pieces) {
  const auto id = [&](const char* piece) { return std::find(pieces.begin(), pieces.end(), piece) - pieces.begin(); };
  const auto name = [&layout](std::int32_t SpecialIds::*role) { return layout.token(role); };
  const char *const cls = name(&SpecialIds::cls), *const sep = name(&SpecialIds::sep);
  if (has_type(processor, "TemplateProcessing")) {
    const json& tokens = member(processor, "special_tokens");
    SequenceTemplate typed = layout.sequence();
    typed.second_type = 1;
    const json& pair = member(processor, "pair");
    return member(processor, "single") == template_list(layout.sequence(), false, name) &&
           (pair == template_list(layout.sequence(), true, name) ||
            (layout.of_roberta && pair == template_list(typed, true, name))) &&
           member(member(tokens, cls), "ids") == json::array({id(cls)}) &&
           member(member(tokens, sep), "ids") == json::array({id(sep)});
  }
  return has_type(processor, layout.of_roberta ? "RobertaProcessing" : "BertProcessing") &&
         member(processor, "cls") == json::array({cls, id(cls)}) &&
         member(processor, "sep") == json::array({sep, id(sep)});
}

/// The layout whose sequences the file's post_processor makes; BERT's, and a problem, if it makes those of none.
const WordPieceLayout& read_post_processor(const json& given, const std::vector<std::string>& pieces,
                                           std::vector<std::string>& problems) {
  const json& processor = unwrapped(given, "processors");
  std::string known;
  for (const WordPieceLayout* layout : wordpiece_layouts()) {
    if (makes(processor, *layout, pieces)) return *layout;
    const auto text = [layout](bool pair) { return '"' + describe(layout->sequence(), pair) + '"'; };
    known += (known.empty() ? "" : ", nor ") + text(false) + " of a text and " + text(true) + " of a pair (" +
             layout->usual_class + ')';
  }
  problems.push_back("its post_processor is " + type_of(processor) + " and makes neither " + known +
                     ", with the vocabulary's ids; this version makes only these.");
  return bert_layout();
}

/// Special tokens have the vocabulary's ids, and are found anywhere in the text as it is.
void check_special_token(const AddedToken& token, const WordPieceLayout& layout, const std::vector<std::string>& pieces,
                         std::vector<std::string>& problems) {
  const auto known = std::find(layout.tokens.begin(), layout.tokens.end(), token.content);
  if (known == layout.tokens.end()) return;
  const auto at = static_cast<std::size_t>(std::find(pieces.begin(), pieces.end(), *known) - pieces.begin());
  if (token.id != static_cast<std::int64_t>(at) && at < pieces.size()) {
    problems.push_back("added_tokens gives " + token.content + " the id " + std::to_string(token.id) +
                       ", and model.vocab " + std::to_string(at) + ".");
  }
  for (const auto& [is_on, key] :
       {std::pair(token.single_word, "single_word"), std::pair(token.normalized, "normalized")}) {
    if (!is_on) continue;
    problems.push_back("added_tokens has " + std::string(key) + " = true for " + token.content +
                       "; this version finds it anywhere in the text as it is.");
  }
}

}  // namespace

void read_wordpiece_json(TokenizerDocument& document, TokenizerJson& result) {
  const std::vector<std::string>& pieces = result.parts.vocabulary = pieces_of(document, result.vocabulary_problem);
  check_model(member(document.json, "model"), result.problems);
  const std::optional<TextForm> form = read_normalizer(member(document.json, "normalizer"), result.problems);
  if (form) result.parts.settings = settings_of(*form);
  check_pre_tokenizer(member(document.json, "pre_tokenizer"), result.problems);
  const WordPieceLayout& layout =
      pieces.empty() ? bert_layout()
                     : read_post_processor(member(document.json, "post_processor"), pieces, result.problems);
  result.parts.sections = layout.name;
  result.parts.added = read_added_tokens(member(document.json, "added_tokens"), result.problems);
  for (const AddedToken& token : result.parts.added) check_special_token(token, layout, pieces, result.problems);
}

// Writing: the sections in the order in which Hugging Face's tokenizers library writes them.

namespace {

ordered_json post_processor(const Vocabulary& vocabulary) {
  const WordPieceLayout& layout = vocabulary.layout();
  const SpecialIds& ids = vocabulary.special();
  const char *const cls = layout.token(&SpecialIds::cls), *const sep = layout.token(&SpecialIds::sep);
  if (layout.of_roberta) {
    return {{"type", "RobertaProcessing"},
            {"sep", ordered_json::array({sep, ids.sep})},
            {"cls", ordered_json::array({cls, ids.cls})},
            {"trim_offsets", true},
            {"add_prefix_space", false}};
  }
  const auto name = [&layout](std::int32_t SpecialIds::*role) { return layout.token(role); };
  return template_processing(template_list(layout.sequence(), false, name),
                             template_list(layout.sequence(), true, name), {layout.sequence(), cls, sep}, ids);
}

/// The entries of model.vocab, one a line.
std::string entries(const Vocabulary& vocabulary) {
  std::string text;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& piece = vocabulary.piece(id);
    if (vocabulary.id(piece) != id) continue;  // a later line has the same piece, and counts
    text +=
        (text.empty() ? "\n      " : ",\n      ") + core::json_text(ordered_json(piece)) + ": " + std::to_string(id);
  }
  return text + "\n    ";
}

}  // namespace

std::vector<AddedToken> with_special_tokens(const Vocabulary& vocabulary, std::vector<AddedToken> tokens) {
  const WordPieceLayout& layout = vocabulary.layout();
  for (const SpecialRole& role : special_roles) {
    tokens.push_back({.content = layout.token(role.id),
                      .id = vocabulary.special().*role.id,
                      .lstrip = layout.of_roberta && role.id == &SpecialIds::mask,
                      .special = true});
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return tokens;
}

nlohmann::json added_tokens_decoder(const Vocabulary& vocabulary, const std::vector<AddedToken>& added) {
  return added_tokens_decoder(with_special_tokens(vocabulary, added));
}

std::string tokenizer_json_text(const Vocabulary& vocabulary, const TextForm& form,
                                const std::vector<AddedToken>& added) {
  const ordered_json document = {{"version", "1.0"},
                                 {"truncation", nullptr},
                                 {"padding", nullptr},
                                 {"added_tokens", added_tokens_json(with_special_tokens(vocabulary, added))},
                                 {"normalizer",
                                  {{"type", "BertNormalizer"},
                                   {"clean_text", true},
                                   {"handle_chinese_chars", form.tokenize_chinese_chars},
                                   {"strip_accents", form.strip_accents},
                                   {"lowercase", form.lowercase}}},
                                 {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                                 {"post_processor", post_processor(vocabulary)},
                                 {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                                 {"model",
                                  {{"type", "WordPiece"},
                                   {"unk_token", "[UNK]"},
                                   {"continuing_subword_prefix", "##"},
                                   {"max_input_chars_per_word", longest_word},
                                   {"vocab", ordered_json::object()}}}};
  // The vocabulary goes into the text, as a key of an ordered object takes time in proportion to those before it.
  std::string text = core::json_text(document, 2);
  text.insert(text.rfind("{}") + 1, entries(vocabulary));
  return text;
}

}  // namespace bert_hpc::tokenize
