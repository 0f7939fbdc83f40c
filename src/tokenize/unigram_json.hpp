// The tokenizer.json of a Unigram tokenizer, read and written. Internal to the module.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "template_json.hpp"
#include "tokenizer_document.hpp"
#include "word_marks_json.hpp"

namespace bert_hpc::tokenize {

/// What tokenizer.json states beside vocabulary and added tokens; TokenizerParts::sections as JSON.
struct UnigramForm {
  std::vector<double> scores{};  ///< (pieces)
  std::int32_t unknown = -1;
  bool byte_fallback = false;
  MarkedForm text{};
};
/// The texts of pieces by id, which leave `pieces`, and their scores in `form`; none, and a problem, for pieces that no
/// tokenizer has.
std::vector<std::string> take_pieces(std::vector<ScoredPiece>& pieces, UnigramForm& form, std::string& problem);
std::string text_of(const UnigramForm& form);
/// Throws Error(internal) for other text than text_of() gives.
UnigramForm unigram_form_of(const std::string& sections);

/// TokenizerKind::read_json of Unigram.
void read_unigram_json(TokenizerDocument& document, TokenizerJson& result);

/// `ids`: of the template's tokens.
std::string unigram_json_text(const TokenizerParts& parts, const UnigramForm& form, const TokenTemplate& tokens,
                              const SpecialIds& ids);

}  // namespace bert_hpc::tokenize
