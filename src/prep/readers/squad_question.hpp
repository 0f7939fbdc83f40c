// SQuAD as JSON Lines, as Hugging Face's datasets exports it (Dataset.to_json): a question a line, with its context:
//   {"id": …, "title": …, "context": …, "question": …, "answers": {"text": […], "answer_start": […]}}
// "answers" may also be a list of objects, as in SQuAD's own JSON, or null where they are not known. Where
// "is_impossible" is missing, a question is impossible if its answers are an empty list. Internal to the module.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/prep/readers/row_reader.hpp"

namespace bert_hpc::prep {

/// Is the file's first object a question, and not a document with "data"? Throws as LineSource does.
bool holds_squad_lines(const std::string& file);

/// A line that cannot be read is a row with a problem. places: as of SquadColumns.
std::unique_ptr<RowReader> open_squad_lines(const std::string& file, std::vector<std::size_t> places);

}  // namespace bert_hpc::prep
