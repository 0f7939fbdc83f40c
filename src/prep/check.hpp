// Internal to the module.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"

namespace bert_hpc::prep {

/// check_files(), keeping the vocabulary of [tokenizer] vocabulary; none where one is to be made.
std::optional<tokenize::Vocabulary> checked_vocabulary(const PrepConfig& config);

/// Warnings on the vocabulary: its files contradict each other, it seems to be for cased text and neither the input nor
/// its folder says so, or the model beside it takes fewer tokens than max_tokens.
std::vector<std::string> doubts(const PrepConfig& config, const tokenize::Vocabulary& vocabulary);

}  // namespace bert_hpc::prep
