// A question of SQuAD by itself, with its context, as Hugging Face's datasets exports it (Dataset.to_json) and as
// Transformers' run_qa.py reads it:
//   {"id": …, "title": …, "context": …, "question": …, "answers": {"text": […], "answer_start": […]}}
// "answers" may also be a list of objects, as in SQuAD's own JSON, or null if they are not known. Without
// "is_impossible", a question is impossible if its answers are an empty list. Internal to the module.
#pragma once

#include <string>
#include <string_view>

#include "squad_article.hpp"

namespace bert_hpc::prep {

struct FlatQuestion {
  SquadQuestion question;
  std::string title, context;

  /// Reads the JSON of a question. Returns what is wrong with it, "" if nothing is.
  std::string read(std::string_view json);
};

}  // namespace bert_hpc::prep
