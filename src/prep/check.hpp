// Internal to the module.
#pragma once

#include <optional>
#include <string>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"

namespace bert_hpc::prep {

/// check_files(), keeping the vocabulary of [tokenizer] vocabulary; none where one is to be made.
std::optional<tokenize::Vocabulary> checked_vocabulary(const PrepConfig& config);

/// A warning where text is lower-cased for want of a word on it, and the vocabulary seems to be for cased text.
std::string doubt_of_case(const PrepConfig& config, const tokenize::Vocabulary& vocabulary);

}  // namespace bert_hpc::prep
