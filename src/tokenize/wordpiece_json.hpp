// The sections of a WordPiece tokenizer's tokenizer.json. Internal to the module.
#pragma once

#include "bert_hpc/tokenize/special_ids.hpp"
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {

/// TokenizerKind::read_json of WordPiece.
void read_wordpiece_json(TokenizerDocument& document, TokenizerJson& result);

/// The tokens as tokenizer_config.json lists them, by id, BERT's special tokens included.
nlohmann::json added_tokens_decoder(const Vocabulary& vocabulary, const std::vector<AddedToken>& added);

/// BERT's token of a role.
const char* special_token_name(std::int32_t SpecialIds::*role);

}  // namespace bert_hpc::tokenize
