// The sections in the order in which Hugging Face's tokenizers library writes them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"
#include "json_sections.hpp"
#include "template_json.hpp"
#include "wordpiece_json.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::ordered_json;

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
