// Internal to the module.
#pragma once

#include <string>

#include "bert_hpc/prep/prep_config.hpp"

namespace bert_hpc::prep {

/// The file that [tokenizer] vocabulary means, which may be a folder.
std::string vocabulary_file(const PrepConfig& config);

}  // namespace bert_hpc::prep
