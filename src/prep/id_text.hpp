// Texts of formats that hold tokens instead of words: ids between blanks. Internal to the module.
#pragma once

#include <memory>

#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::prep {

/// Reads ids of a vocabulary of `size` tokens. Throws Error(data) for a text that is none, or has an id beyond it.
std::unique_ptr<tokenize::TextEncoder> id_reader(std::int64_t size);

}  // namespace bert_hpc::prep
