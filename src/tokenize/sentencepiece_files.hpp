// The tokenizer of a folder that has a SentencePiece model and no tokenizer.json. Internal to the module.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/tokenize/tokenizer.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {

inline constexpr const char* sentencepiece_name = "sentencepiece.bpe.model";

/// TokenizerKind::read_own_files of Unigram: the parts that the tokenizer.json has which Transformers makes of the
/// folder. Problems: the model is damaged or not of Unigram, or its class is not known.
void read_sentencepiece(const std::string& folder, const ConfigFile& config, TokenizerParts& parts,
                        std::vector<std::string>& problems);

}  // namespace bert_hpc::tokenize
