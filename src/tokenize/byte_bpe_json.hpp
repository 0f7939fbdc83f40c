// The files of a byte-level BPE tokenizer: what their sections state, read and written. Internal to the module.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/tokenize/byte_words.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "role_tokens.hpp"
#include "template_json.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {

inline constexpr const char* add_prefix_space_key = "add_prefix_space";
inline constexpr const char* trim_offsets_key = "trim_offsets";

/// The roles in the order of their ids in RoBERTa's vocabularies.
inline constexpr std::array<std::int32_t SpecialIds::*, 5> roberta_order = {
    &SpecialIds::cls, &SpecialIds::pad, &SpecialIds::sep, &SpecialIds::unk, &SpecialIds::mask};
/// GPT-2's only special token.
inline constexpr const char* end_of_text = "<|endoftext|>";

/// What tokenizer.json states beside vocabulary, merges, added tokens and switches; TokenizerParts::sections as JSON.
struct ByteBpeForm {
  WordPattern pattern = WordPattern::gpt2;
  bool ignore_merges = false;
  bool composes = false;  ///< the normalizer is NFC
  /// add_prefix_space of the post-processor, if it is not that of the pre-tokenizer.
  std::optional<bool> trimming_expects_prefix{};
  /// The lists of a TemplateProcessing; empty if texts have no special tokens around them.
  nlohmann::json single = nlohmann::json::array(), pair = nlohmann::json::array();
};
ByteBpeForm roberta_form();
std::string text_of(const ByteBpeForm& form);
/// "": roberta_form(). Throws Error(internal) for other text than text_of() gives.
ByteBpeForm byte_bpe_form_of(const std::string& sections);

/// TokenizerKind::read_json of byte-level BPE.
void read_byte_bpe_json(TokenizerDocument& document, TokenizerJson& result);

/// What a tokenizer.json is written from.
struct ByteBpeFile {
  const TokenizerParts& parts;  ///< settings: all known
  const ByteBpeForm& form;
  const TokenTemplate& tokens;
  SpecialIds ids;
};
std::string byte_bpe_json_text(const ByteBpeFile& file);

}  // namespace bert_hpc::tokenize
