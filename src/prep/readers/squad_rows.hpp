// Rows of SQuAD's JSON, versions 1.1 and 2: one for each question. Internal to the module: open_rows() makes these.
//
// Columns: "id", "title" (of the article), "question", "context", "is_impossible" ("true" or "false"), and of the first
// answer "answer_text" and "answer_start" (both empty where there is none). A row whose answer does not stand in the
// context where the file says has a problem.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/prep/readers/row_reader.hpp"

namespace bert_hpc::prep {

std::unique_ptr<RowReader> open_squad_rows(const std::string& file, const std::vector<std::string>& columns);

}  // namespace bert_hpc::prep
