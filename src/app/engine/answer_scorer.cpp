#include "bert_hpc/app/engine/answer_scorer.hpp"

#include <algorithm>
#include <limits>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/score/squad.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {

objectives::AnswerSettings answer_settings(const config::Task& task, const data::ShardReader& reader) {
  if (!reader.planned() && !reader.info().has_texts) {
    throw core::Error(core::ExitCode::data,
                      reader.files().front() +
                          ": it holds no texts, so that answers cannot be predicted: it was prepared for training. "
                          "Prepare these files as [source] validation_files or test_files.");
  }
  const auto given = task.switches.find(tasks::no_answer_key);
  const bool usual = reader.info().unanswerable > 0 || !reader.info().labelled;
  objectives::AnswerSettings settings;
  settings.n_best = static_cast<std::int64_t>(task.number(tasks::n_best_key, 20));
  settings.max_answer_tokens = static_cast<std::int64_t>(task.number(tasks::max_answer_tokens_key, 30));
  settings.null_threshold = task.number(tasks::null_threshold_key, 0);
  settings.no_answer = given != task.switches.end() && given->second ? *given->second : usual;
  return settings;
}

AnswerScorer::AnswerScorer(const data::ShardReader& reader, std::mutex& hdf5,
                           const objectives::AnswerSettings& settings)
    : questions_(reader, hdf5), settings_(settings), collector_(settings) {}

void AnswerScorer::add(std::span<const float> window, std::vector<io::AnsweredQuestion>* answers) {
  core::require(questions_.next(), "each window is a sample");
  if (questions_.starts_question()) {
    finish_question(answers);
    question_ = questions_.question();
    open_ = true;
  }
  collector_.add(window, questions_.characters());
}

void AnswerScorer::finish_question(std::vector<io::AnsweredQuestion>* answers) {
  if (!open_) return;
  open_ = false;
  io::AnsweredQuestion answer = collector_.finish(question_.context);
  answer.id = question_.id;
  if (question_.answers) {
    const std::vector<std::string>& gold = *question_.answers;
    const score::AnswerScore score = score::squad_answer_score(gold, answer.text);
    const bool has = !gold.empty();
    (has ? sums_.has : sums_.no) += 1;
    (has ? sums_.has_exact : sums_.no_exact) += score.exact;
    (has ? sums_.has_f1 : sums_.no_f1) += score.f1;
    if (answer.null_odds) {
      const auto best = std::find_if(answer.n_best.begin(), answer.n_best.end(),
                                     [](const io::AnswerChoice& choice) { return !choice.text.empty(); });
      const score::AnswerScore answered = score::squad_answer_score(gold, best->text);
      scored_.push_back({*answer.null_odds, answered.exact, answered.f1, has});
    }
  }
  if (answers != nullptr) answers->push_back(std::move(answer));
}

namespace {

/// The best score, in percent, that a threshold of the odds of "no answer" gives: evaluate-v2.0.py's
/// find_best_thresh().
template <class Scored>
double best_percent(const std::vector<Scored>& ascending, double Scored::*kind, double questions) {
  double score = 0;
  for (const Scored& one : ascending) score += one.has_answer ? 0 : 1;
  double best = score;
  for (const Scored& one : ascending) {
    score += one.has_answer ? one.*kind : -1.0;
    best = std::max(best, score);
  }
  return 100.0 * best / questions;
}

}  // namespace

void AnswerScorer::finish(metrics::Sums sums, std::vector<io::AnsweredQuestion>* answers) {
  finish_question(answers);
  if (sums.empty()) return;
  sums_.best_exact = sums_.best_f1 = std::numeric_limits<double>::quiet_NaN();
  if (!scored_.empty()) {
    std::stable_sort(scored_.begin(), scored_.end(), [](const Scored& a, const Scored& b) { return a.odds < b.odds; });
    sums_.best_exact = best_percent(scored_, &Scored::exact, sums_.has + sums_.no);
    sums_.best_f1 = best_percent(scored_, &Scored::f1, sums_.has + sums_.no);
  }
  sums_.to(sums);
}

}  // namespace bert_hpc::app
