#include "squad_columns.hpp"

#include "squad_answers.hpp"

namespace bert_hpc::prep {

void SquadColumns::fill(SquadQuestion& question, std::string_view title, const std::string& context, Row& row) {
  row.problem = misplaced(question, context);
  row.note = contradiction(question);
  if (!row.problem.empty()) {
    SquadAnswer& answer = question.answers.front();
    if (const auto start = only_position(answer.text, context)) {
      if (!row.note.empty()) row.note += "; ";
      row.note += row.problem + "; the answer is at " + std::to_string(*start) + " alone, which is used";
      answer.start = *start;
      row.problem.clear();
    }
  }
  start_ = question.answered() ? std::to_string(question.answers.front().start) : "";
  answers_ = answers_text(question);
  const std::string_view first_answer =
      question.answered() ? std::string_view(question.answers.front().text) : std::string_view();
  const std::string_view impossible = question.impossible ? "true" : "false";
  const std::string_view all[] = {question.id, title,        question.text, context,
                                  impossible,  first_answer, start_,        answers_};  // as squad_format() has them
  row.values.clear();
  for (const std::size_t index : indices_) row.values.emplace_back(all[index]);
}

void SquadColumns::fail(std::string problem, Row& row) const {
  row.problem = std::move(problem);
  row.note.clear();
  row.values.assign(indices_.size(), std::nullopt);
}

}  // namespace bert_hpc::prep
