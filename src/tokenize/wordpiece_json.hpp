// The sections of a WordPiece tokenizer's tokenizer.json. Internal to the module.
#pragma once

#include "bert_hpc/tokenize/special_ids.hpp"
#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {

/// TokenizerKind::read_json of WordPiece.
void read_wordpiece_json(TokenizerDocument& document, TokenizerJson& result);

/// BERT's token of a role.
const char* special_token_name(std::int32_t SpecialIds::*role);

}  // namespace bert_hpc::tokenize
