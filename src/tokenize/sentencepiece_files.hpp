// The tokenizer of a folder that has a SentencePiece model and no tokenizer.json. Internal to the module.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/tokenize/tokenizer.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {

inline constexpr const char* sentencepiece_bpe_name = "sentencepiece.bpe.model";
inline constexpr const char* spm_name = "spm.model";  ///< of DeBERTa

/// TokenizerKind::read_own_files of Unigram: the parts that the tokenizer.json has which Transformers makes of the
/// folder. Problems: the model is damaged or not of Unigram, or its class is not known or has another file.
void read_sentencepiece(const std::string& file, const ConfigFile& config, TokenizerParts& parts,
                        std::vector<std::string>& problems);

/// TokenizerKind::class_difference of Unigram.
std::string sentencepiece_class_difference(const std::string& folder, const ConfigFile& config,
                                           const TokenizerParts& parts);

}  // namespace bert_hpc::tokenize
