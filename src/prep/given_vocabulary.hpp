// The vocabulary that [tokenizer] vocabulary names: a tokenizer.json, a vocabulary file, or a Hugging Face folder that
// has either. Internal to the module.
#pragma once

#include <memory>
#include <string>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"

namespace bert_hpc::prep {

/// What the files of the vocabulary's folder say of the tokenizer; nothing if a vocabulary is to be made, or is a
/// file of another name than those of Hugging Face folders and *.json. Throws Error(files).
tokenize::TokenizerFolder given_tokenizer(const TokenizerConfig& tokenizer);

/// The tokenizer of that vocabulary, which reads text as `config` says. Throws Error(files) if there is none to
/// read, Error(data) where it is not a vocabulary of the kind that [tokenizer] type names.
std::unique_ptr<tokenize::Tokenizer> load_tokenizer(const PrepConfig& config);

}  // namespace bert_hpc::prep
