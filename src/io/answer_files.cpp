#include "bert_hpc/io/answer_files.hpp"

#include <nlohmann/json.hpp>

#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::io {
namespace {

using Json = nlohmann::ordered_json;

Json choices_of(const AnsweredQuestion& question) {
  Json all = Json::array();
  for (const AnswerChoice& choice : question.n_best) {
    all.push_back({{"start_logit", choice.start_logit},
                   {"end_logit", choice.end_logit},
                   {"probability", choice.probability},
                   {"text", choice.text}});
  }
  return all;
}

/// {id: value, …} a question at a time: a document of all choices would take several times the memory.
template <class ValueOf>
std::string object_of(const std::vector<AnsweredQuestion>& questions, const ValueOf& value_of) {
  std::string text;
  for (const AnsweredQuestion& question : questions) {
    const Json value = value_of(question);
    if (value.is_null()) continue;
    const std::string member = Json{{question.id, value}}.dump(4, ' ', true, Json::error_handler_t::replace);
    text += text.empty() ? '{' : ',';
    text.append(member, 1, member.size() - 3);  // without "{" and "\n}"
  }
  text += text.empty() ? "{}\n" : "\n}\n";
  return text;
}

}  // namespace

void write_answer_files(const std::string& directory, const std::vector<AnsweredQuestion>& questions) {
  write_text_file(directory + "/predictions.json",
                  object_of(questions, [](const AnsweredQuestion& one) { return Json(one.text); }));
  write_text_file(directory + "/nbest_predictions.json", object_of(questions, choices_of));
  const std::string odds = object_of(
      questions, [](const AnsweredQuestion& one) { return one.null_odds ? Json(*one.null_odds) : Json(nullptr); });
  if (odds != "{}\n") write_text_file(directory + "/null_odds.json", odds);
}

}  // namespace bert_hpc::io
