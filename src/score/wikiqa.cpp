// WikiQA (Yang, Yih, Meek 2015, doi:10.18653/v1/D15-1237).
//
// Selection of answers: MAP, MRR and P@1 as trec_eval computes them, over the questions with a right answer alone, as
// the paper has it. A question's sentences are ordered by descending score (in single precision), then by descending
// SentenceID.
//
// Triggering of answers: precision, recall and F1 of questions as eval.py of the corpus has them. The question's
// sentence of the highest score (the first of equals, in GOLD's order) is its answer if the score reaches a threshold.
// Precision is the share of right answers among the answers, recall among the questions that have a right one. The
// thresholds are 0.11, eval.py's own, and the highest that gives the best F1. Scores are to be probabilities:
// eval.py ignores those that are not positive.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/score/ranking.hpp"
#include "json_file.hpp"
#include "lines.hpp"
#include "scorers.hpp"

namespace bert_hpc::score {
namespace {

constexpr double script_threshold = 0.11;

struct Sentence {
  std::string id;
  bool is_right;
  bool has_score = false;
  double score = 0.0;
};

struct Question {
  std::string id;
  std::vector<Sentence> sentences;
};

struct Questions {
  std::vector<Question> list;
  std::unordered_map<std::string, std::pair<std::size_t, std::size_t>> indices;  ///< question, tab, sentence → both

  static std::string key(std::string_view question, std::string_view sentence) {
    return std::string(question) + '\t' + std::string(sentence);
  }
};

Questions read_gold(const std::string& path) {
  Questions questions;
  std::unordered_map<std::string, std::size_t> of_id;
  bool is_header = true;
  each_row(path, Separator::tab, [&](const Line& line) {
    const std::string form = "QuestionID, Question, DocumentID, DocumentTitle, SentenceID, Sentence, Label";
    if (is_header) {
      is_header = false;
      const auto& names = line.columns;
      if (names.size() != 7 || names[0] != "QuestionID" || names[4] != "SentenceID" || names[6] != "Label") {
        line.fail("this is not WikiQA's header with labels: " + form + " between tabs.");
      }
      return;
    }
    line.require_columns(7, form);
    const bool is_right = line.integer(6, 0, 1) == 1;
    const auto [entry, is_new] = of_id.emplace(line.columns[0], questions.list.size());
    if (is_new) questions.list.push_back({std::string(line.columns[0]), {}});
    auto& sentences = questions.list[entry->second].sentences;
    const std::string key = Questions::key(line.columns[0], line.columns[4]);
    if (!questions.indices.emplace(key, std::pair(entry->second, sentences.size())).second) {
      line.fail("the question has this sentence already; remove one.");
    }
    sentences.push_back({std::string(line.columns[4]), is_right});
  });
  if (questions.list.empty()) fail_data(path, "it has no questions; give WikiQA's table with labels.");
  return questions;
}

/// Lines 'QuestionID SentenceID score', or a run in TREC's form.
void read_scores(const Files& files, Questions& questions) {
  each_row(files.predictions, Separator::blanks, [&](const Line& line) {
    const bool is_run = line.columns.size() == 6;
    if (!is_run) line.require_columns(3, "QuestionID SentenceID score");
    const auto found = questions.indices.find(Questions::key(line.columns[0], line.columns[is_run ? 2 : 1]));
    if (found == questions.indices.end()) {
      line.fail("this question has no such sentence in " + files.gold + "; give the predictions of that file.");
    }
    Sentence& sentence = questions.list[found->second.first].sentences[found->second.second];
    if (sentence.has_score) line.fail("the sentence has a score already; remove one.");
    sentence.has_score = true;
    const std::size_t column = is_run ? 4 : 2;
    line.single(column);  // which the order needs
    sentence.score = line.real(column);
  });
  for (const Question& question : questions.list) {
    for (const Sentence& sentence : question.sentences) {
      if (sentence.has_score) continue;
      fail_data(files.predictions, "it has no score for sentence '" + core::printable(sentence.id) + "' of question '" +
                                       core::printable(question.id) + "'; add a line for each row of " + files.gold +
                                       '.');
    }
  }
}

/// MAP, MRR and P@1 of one question that has a right answer, not yet averaged.
std::vector<Number> ranking_numbers(const std::vector<Sentence>& sentences) {
  std::vector<RankedCandidate> candidates;
  for (const Sentence& one : sentences) candidates.push_back({one.id, static_cast<float>(one.score), one.is_right});
  rank_candidates(candidates);
  std::vector<std::int64_t> levels;
  for (const RankedCandidate& one : candidates) levels.push_back(one.level);
  const double reciprocal = reciprocal_rank(levels);
  const auto right = static_cast<double>(std::count(levels.begin(), levels.end(), 1));
  return {
      {"map", average_precision(levels, right)}, {"recip_rank", reciprocal}, {"P_1", reciprocal == 1.0 ? 1.0 : 0.0}};
}

/// Numbers at the script's threshold, and at the best one.
void add_triggering(Result& result, const std::vector<TriggeredAnswer>& answers, double answerable) {
  double right = 0.0, answered = 0.0;
  for (const TriggeredAnswer& answer : answers) {
    if (answer.score < script_threshold) continue;
    answered += 1.0;
    right += answer.is_right ? 1.0 : 0.0;
  }
  const BestTriggering best = best_triggering(answers, answerable);
  const Triggering at_script = triggering(right, answered, answerable);
  for (const auto& [prefix, numbers] :
       {std::pair("triggering_", at_script), std::pair("best_triggering_", best.numbers)}) {
    result.numbers.push_back({std::string(prefix) + "precision", numbers.precision});
    result.numbers.push_back({std::string(prefix) + "recall", numbers.recall});
    result.numbers.push_back({std::string(prefix) + "f1", numbers.f1});
  }
  result.numbers.push_back({"best_triggering_thresh", best.threshold});
}

Result score_files(const Files& files) {
  Questions questions = read_gold(files.gold);
  read_scores(files, questions);
  std::vector<Number> sums;
  std::vector<TriggeredAnswer> answers;
  double answerable = 0.0;
  for (const Question& question : questions.list) {
    const auto& sentences = question.sentences;
    const auto best = std::max_element(sentences.begin(), sentences.end(),
                                       [](const Sentence& a, const Sentence& b) { return a.score < b.score; });
    answers.push_back({best->score, best->is_right});
    if (std::none_of(sentences.begin(), sentences.end(), [](const Sentence& one) { return one.is_right; })) continue;
    answerable += 1.0;
    const std::vector<Number> numbers = ranking_numbers(sentences);
    if (sums.empty()) {
      sums = numbers;
    } else {
      for (std::size_t i = 0; i < numbers.size(); ++i) sums[i].value += numbers[i].value;
    }
  }
  if (answerable == 0.0) fail_data(files.gold, "none of its questions has a right answer; give a table with labels.");
  Result result;
  result.numbers = {{"questions", static_cast<double>(questions.list.size()), true},
                    {"questions_with_answer", answerable, true}};
  for (const Number& sum : sums) result.numbers.push_back({sum.name, sum.value / answerable});
  add_triggering(result, answers, answerable);
  return result;
}

}  // namespace

const Scorer wikiqa_scorer = {
    "wikiqa",
    "WikiQA: GOLD as published, PREDICTIONS 'QuestionID SentenceID score' or a run in TREC's form; "
    "trec_eval's numbers and those of eval.py",
    false, score_files};

}  // namespace bert_hpc::score
