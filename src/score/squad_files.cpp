// SQuAD's files: questions with their gold answers, predictions, probabilities of "no answer".
#include <algorithm>
#include <unordered_set>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/score/squad.hpp"
#include "json_file.hpp"
#include "scorers.hpp"

namespace bert_hpc::score {
namespace {

using nlohmann::json;

/// Reads members of one file; `where` names the object in messages: "data[0].paragraphs[2]".
class GoldReader {
 public:
  explicit GoldReader(const std::string& path) : path_(path) {}

  const json& member(const json& object, const char* name, const std::string& where) const {
    if (!object.is_object()) fail_data(path_, where + " is not an object; give a file of SQuAD's form.");
    const auto found = object.find(name);
    if (found == object.end()) fail_data(path_, where + " has no \"" + name + "\"; give a file of SQuAD's form.");
    return *found;
  }
  const json& list(const json& object, const char* name, const std::string& where) const {
    const json& value = member(object, name, where);
    if (!value.is_array()) fail_data(path_, where + '.' + name + " is not a list; give a file of SQuAD's form.");
    return value;
  }
  std::string id(const json& object, const std::string& where) const {
    const json& value = member(object, "id", where);
    return value.is_number_integer() ? value.dump() : text(object, "id", where);
  }
  std::string text(const json& object, const char* name, const std::string& where) const {
    const json& value = member(object, name, where);
    if (!value.is_string()) fail_data(path_, where + '.' + name + " is not a text; write it in double quotes.");
    return value.get<std::string>();
  }

 private:
  const std::string& path_;
};

std::string item(const std::string& where, const char* name, std::size_t index) {
  return where + (where.empty() ? "" : ".") + name + '[' + std::to_string(index) + ']';
}

/// The forms of gold files that bert_hpc_prep reads: articles of paragraphs of questions as published, a list of
/// paragraphs, and questions by themselves.
class GoldQuestions {
 public:
  explicit GoldQuestions(const std::string& path) : reader_(path), path_(path) {}

  std::vector<Question> read(const json& document) {
    const bool is_question = document.is_object() && !document.contains("data") && document.contains("question");
    if (document.is_array()) {
      for (std::size_t i = 0; i < document.size(); ++i) add_item(document[i], item("", "", i));
    } else if (is_question) {  // a single line
      add_question(document, "the file");
    } else {
      const json& items = reader_.list(document, "data", "the file");
      for (std::size_t i = 0; i < items.size(); ++i) add_item(items[i], item("", "data", i));
    }
    if (questions_.empty()) fail_data(path_, "it has no questions; give the file with the gold answers.");
    return std::move(questions_);
  }

 private:
  void add_item(const json& value, const std::string& where) {
    const auto has = [&](const char* name) { return value.is_object() && value.contains(name); };
    if (has("qas")) return add_paragraph(value, where);
    if (has("question") || has("answers")) return add_question(value, where);
    const json& paragraphs = reader_.list(value, "paragraphs", where);
    for (std::size_t p = 0; p < paragraphs.size(); ++p) add_paragraph(paragraphs[p], item(where, "paragraphs", p));
  }

  void add_paragraph(const json& paragraph, const std::string& where) {
    const json& asked = reader_.list(paragraph, "qas", where);
    for (std::size_t q = 0; q < asked.size(); ++q) add_question(asked[q], item(where, "qas", q));
  }

  void add_question(const json& asked, const std::string& where) {
    Question question{reader_.id(asked, where)};
    const json& answers = reader_.member(asked, "answers", where);
    if (answers.is_object()) {  // {"text": […], "answer_start": […]}
      const json& texts = reader_.list(answers, "text", where + ".answers");
      for (std::size_t i = 0; i < texts.size(); ++i) {
        if (!texts[i].is_string())
          fail_data(path_, item(where + ".answers", "text", i) + " is not a text; write it in double quotes.");
        question.answers.push_back(texts[i].get<std::string>());
      }
    } else {
      reader_.list(asked, "answers", where);
      for (std::size_t i = 0; i < answers.size(); ++i) {
        question.answers.push_back(reader_.text(answers[i], "text", item(where, "answers", i)));
      }
    }
    questions_.push_back(std::move(question));
  }

  const GoldReader reader_;
  const std::string& path_;
  std::vector<Question> questions_;
};

/// {"question's id": "text", …}
Predictions read_predictions(const std::string& path) {
  const json document = read_json_file(path);
  if (!document.is_object()) fail_data(path, "it is not an object of question ids and texts; give predictions.json.");
  Predictions predictions;
  for (const auto& [id, text] : document.items()) {
    if (!text.is_string()) {
      fail_data(path,
                "the prediction of question '" + core::printable(id) + "' is not a text; write it in double quotes.");
    }
    predictions[id] = text.get<std::string>();
  }
  return predictions;
}

/// {"question's id": number, …}
std::vector<NoAnswerProbability> read_probabilities(const std::string& path) {
  std::vector<std::string> ids;
  const json document = read_json_file(path, &ids);
  if (!document.is_object()) fail_data(path, "it is not an object of question ids and numbers; give null_odds.json.");
  std::vector<NoAnswerProbability> probabilities;
  std::unordered_set<std::string> seen;
  for (const std::string& id : ids) {
    if (!seen.insert(id).second) continue;
    const json& value = document.at(id);
    if (!value.is_number()) fail_data(path, "the value of question '" + core::printable(id) + "' is not a number.");
    probabilities.push_back({id, value.get<double>()});
  }
  return probabilities;
}

/// Throws Error(data) if `has` fails for a question: the official script of version 2.0 fails there.
template <class Has>
void require_all(const std::vector<Question>& questions, const std::string& path, const std::string& what, Has has) {
  std::int64_t count = 0;
  std::string first;
  for (const Question& question : questions) {
    if (has(question.id)) continue;
    if (count++ == 0) first = core::printable(question.id);
  }
  if (count == 0) return;
  fail_data(path, "it has no " + what + " for " + core::counted(count, "question") +
                      " of the gold file, the first is '" + first + "'; add them (\"\" is a prediction: no answer).");
}

Result score_files(const Files& files) {
  const json document = read_json_values(files.gold);
  const std::vector<Question> questions = GoldQuestions(files.gold).read(document);
  const Predictions predictions = read_predictions(files.predictions);
  const bool is_version_1 = document.is_object() && document.value("version", json()) == json("1.1");
  if (is_version_1) {
    if (!files.no_answer_probabilities.empty()) {
      fail_data(files.gold, "its version is 1.1, which has no unanswerable questions; leave out the third file.");
    }
    for (const Question& question : questions) {
      if (!question.answers.empty()) continue;
      fail_data(
          files.gold,
          "question '" + core::printable(question.id) +
              "' has no answers; in version 1.1 each needs one (set \"version\" to \"v2.0\" if the file is that).");
    }
    const bool of_others =
        !predictions.empty() &&
        std::none_of(questions.begin(), questions.end(), [&](const auto& one) { return predictions.contains(one.id); });
    if (of_others) {
      fail_data(files.predictions, "none of its questions is in " + files.gold + ", the first is '" +
                                       core::printable(predictions.begin()->first) +
                                       "'; give the predictions of these questions.");
    }
    return squad1_result(questions, predictions);
  }
  require_all(questions, files.predictions, "prediction", [&](const auto& id) { return predictions.contains(id); });
  if (files.no_answer_probabilities.empty()) return squad2_result(questions, predictions, {});
  const std::vector<NoAnswerProbability> probabilities = read_probabilities(files.no_answer_probabilities);
  std::unordered_set<std::string> ids;
  for (const NoAnswerProbability& one : probabilities) ids.insert(one.id);
  require_all(questions, files.no_answer_probabilities, "number", [&](const auto& id) { return ids.contains(id); });
  return squad2_result(questions, predictions, probabilities);
}

}  // namespace

const Scorer squad_scorer = {
    "squad",
    "SQuAD 1.1 or 2.0: GOLD as published, PREDICTIONS {id: text}, NO_ANSWER_PROBABILITIES {id: number}; "
    "the numbers of evaluate-v1.1.py and evaluate-v2.0.py",
    true, score_files};

}  // namespace bert_hpc::score
