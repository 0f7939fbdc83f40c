// The sections of a WordPiece tokenizer's tokenizer.json. Internal to the module.
#pragma once

#include "bert_hpc/tokenize/special_ids.hpp"
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {

/// TokenizerKind::read_json of WordPiece.
void read_wordpiece_json(TokenizerDocument& document, TokenizerJson& result);

/// Added tokens and the vocabulary's special tokens, by id.
std::vector<AddedToken> with_special_tokens(const Vocabulary& vocabulary, std::vector<AddedToken> tokens);
/// The same as tokenizer_config.json lists them.
nlohmann::json added_tokens_decoder(const Vocabulary& vocabulary, const std::vector<AddedToken>& added);

}  // namespace bert_hpc::tokenize
