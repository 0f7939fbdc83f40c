// The tokenizer.json of a letters tokenizer, read and written: a WordLevel model behind a pre-tokenizer that cuts text
// at blanks and around each token of the vocabulary. Internal to the module.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "template_json.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {

/// Defined in letters_tokenizer.cpp.
const TokenizerKind& letters_kind();

/// Settings in the files other than vocabulary and added tokens; TokenizerParts::sections holds them as JSON.
struct LettersForm {
  std::string unknown = "<unk>";
  nlohmann::json single, pair;  ///< the lists of a TemplateProcessing
};
/// "<cls> a <eos>" and "<cls> a <eos> b <eos>", with these tokens.
LettersForm letters_form(const std::string& cls, const std::string& eos);
std::string text_of(const LettersForm& form);
/// Throws Error(internal) for other text than text_of() gives.
LettersForm letters_form_of(const std::string& sections);

/// TokenizerKind::read_json of letters.
void read_letters_json(TokenizerDocument& document, TokenizerJson& result);

/// `ids`: of the template's tokens.
std::string letters_json_text(const TokenizerParts& parts, const LettersForm& form, const TokenTemplate& tokens,
                              const SpecialIds& ids);

}  // namespace bert_hpc::tokenize
