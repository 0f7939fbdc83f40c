// The tokenizer.json of BPE whose words have the mark "▁", read and written. Internal to the module.
#pragma once

#include <string>

#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "template_json.hpp"
#include "tokenizer_document.hpp"
#include "word_marks_json.hpp"

namespace bert_hpc::tokenize {

/// Settings of tokenizer.json beside vocabulary, merges and added tokens; TokenizerParts::sections as JSON.
struct MetaspaceBpeForm {
  std::string unknown{};  ///< model.unk_token; "": characters that no token has are left out
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
  MarkedForm text{};
};
std::string text_of(const MetaspaceBpeForm& form);
/// Throws Error(internal) for other text than text_of() gives.
MetaspaceBpeForm metaspace_bpe_form_of(const std::string& sections);

/// TokenizerKind::read_json.
void read_metaspace_bpe_json(TokenizerDocument& document, TokenizerJson& result);

/// `ids`: of the template's tokens.
std::string metaspace_bpe_json_text(const TokenizerParts& parts, const MetaspaceBpeForm& form,
                                    const TokenTemplate& tokens, const SpecialIds& ids);

}  // namespace bert_hpc::tokenize
