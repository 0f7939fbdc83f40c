// The model of a BPE tokenizer.json, read and written. Internal to the module.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bert_hpc/tokenize/tokenizer_json.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {

/// Appends a problem for each member of the model that makes other tokens. `title`: of the kind.
void check_bpe_model(const nlohmann::json& model, const char* title, std::vector<std::string>& problems);
/// Takes vocabulary and merges from the document; `line_ends`: tokens may have them.
void take_bpe_parts(TokenizerDocument& document, bool line_ends, TokenizerJson& result);

/// The text of a document with an empty model.vocab, with these tokens in it.
std::string text_with_vocabulary(const nlohmann::ordered_json& document, const std::vector<std::string>& vocabulary);
/// A vocab.json.
std::string vocabulary_json_text(const std::vector<std::string>& vocabulary);

}  // namespace bert_hpc::tokenize
