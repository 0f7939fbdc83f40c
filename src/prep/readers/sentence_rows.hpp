// Files with a word a row, and a column that names the sentence, as Kaggle's table of named entities: a sentence as one
// row in words (prep/word_rows.hpp). Internal to the module.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/prep/readers/row_reader.hpp"

namespace bert_hpc::prep {

/// `format` has a sentence column. A row begins a sentence if its cell there is neither empty nor that of the row
/// before. format.list_columns hold words and tags; of other columns the first row's cell counts.
std::unique_ptr<RowReader> open_sentence_rows(const std::string& file, const RowFormat& format,
                                              const std::vector<std::string>& columns);

}  // namespace bert_hpc::prep
