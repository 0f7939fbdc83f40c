#include "bert_hpc/objectives/answer_files.hpp"

#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"

namespace bert_hpc::objectives {
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

/// `"name": value`, indented as a member of the outermost object.
std::string member(const std::string& name, const Json& value) {
  const std::string object = core::json_text(Json{{name, value}}, 4, true);
  return object.substr(2, object.size() - 4);  // without "{\n" and "\n}"
}

}  // namespace

void JsonObjectFile::add(std::string_view member) {
  file_.write(has_members_ ? ",\n" : "{\n");
  file_.write(member);
  has_members_ = true;
}

void JsonObjectFile::close() {
  file_.write(has_members_ ? "\n}\n" : "{}\n");
  file_.close();
}

AnswerFiles::AnswerFiles(const std::string& directory)
    : directory_(directory),
      answers_(directory + "/predictions.json"),
      choices_(directory + "/nbest_predictions.json") {}

void AnswerFiles::add(const AnsweredQuestion& question) {
  answers_.add(member(question.id, question.text));
  choices_.add(member(question.id, choices_of(question)));
  if (!question.null_odds) return;
  if (!odds_) odds_.emplace(directory_ + "/null_odds.json");
  odds_->add(member(question.id, *question.null_odds));
}

void AnswerFiles::close() {
  answers_.close();
  choices_.close();
  if (odds_) odds_->close();
}

}  // namespace bert_hpc::objectives
