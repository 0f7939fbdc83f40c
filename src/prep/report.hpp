// Internal to the module.
#pragma once

#include <optional>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"

namespace bert_hpc::prep {

/// check_files(), keeping the vocabulary of [tokenizer] vocabulary; none where one is to be made.
std::optional<tokenize::Vocabulary> checked_vocabulary(const PrepConfig& config);

}  // namespace bert_hpc::prep
