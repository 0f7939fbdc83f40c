// Internal to the module.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::prep {

/// check_files(), keeping the tokenizer of [tokenizer] vocabulary; null if a vocabulary is to be trained.
std::unique_ptr<tokenize::Tokenizer> checked_tokenizer(const PrepConfig& config);

/// Warnings on the vocabulary: its files contradict each other, it seems to be for cased text and neither the input nor
/// its folder says so, or the model beside it takes fewer tokens than max_tokens.
std::vector<std::string> doubts(const PrepConfig& config, const tokenize::Tokenizer& tokenizer);

/// Lines about files whose byte order mark names another encoding than the input does, or which seem to be UTF-8 though
/// it names another one.
std::vector<std::string> marked_files(const PrepConfig& config);

}  // namespace bert_hpc::prep
