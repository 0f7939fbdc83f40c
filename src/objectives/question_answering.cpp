// Two scores for each token, as the first and as the last of an answer. Predictions are made of all windows of a
// question (objectives/answers.hpp): rank 0 makes the answers of a data set's questions from the best spans of their
// windows, writes them into files and computes how right they are.
#include <algorithm>
#include <limits>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/answer_data.hpp"
#include "bert_hpc/metrics/answers.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/objectives/answer_files.hpp"
#include "bert_hpc/objectives/answers.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/score/squad.hpp"

namespace bert_hpc::objectives {
namespace {

/// Settings of the input's [task]. Without the key no_answer, questions may have no answer if the data have such
/// questions or do not say.
AnswerSettings answer_settings(const config::Task& task, const data::ShardReader& reader) {
  const bool usual = reader.info().unanswerable > 0 || !reader.info().labelled;
  return {.n_best = static_cast<std::int64_t>(task.number(tasks::n_best_key)),
          .max_answer_tokens = static_cast<std::int64_t>(task.number(tasks::max_answer_tokens_key)),
          .no_answer = task.given_switch(tasks::no_answer_key).value_or(usual),
          .null_threshold = task.number(tasks::null_threshold_key)};
}

/// A question with known answers, for the best threshold.
struct Scored {
  double odds = 0, exact = 0, f1 = 0;  ///< of the answer that is not "none"
  bool has_answer = false;
};

/// evaluate-v2.0.py's find_best_thresh(): questions whose odds of "no answer" are at most the threshold are answered.
/// Its threshold is 0 where answering none is best.
metrics::BestAnswers best_answers(const std::vector<Scored>& ascending, double Scored::*kind, double questions) {
  double score = 0;
  for (const Scored& one : ascending) score += one.has_answer ? 0 : 1;
  double best = score, threshold = 0;
  for (const Scored& one : ascending) {
    score += one.has_answer ? one.*kind : -1.0;
    if (score <= best) continue;
    best = score;
    threshold = one.odds;
  }
  return {100.0 * best / questions, threshold};
}

class AnswerResultCollector : public ResultCollector {
 public:
  AnswerResultCollector(const AnswerSettings& settings, const data::ShardReader& reader, const PredictionsFacts* files,
                        std::mutex& hdf5)
      : collector_(settings), questions_(reader, hdf5) {
    if (files != nullptr) files_.emplace(files->directory);
  }

  void add(std::span<const float> kept) override {
    core::require(questions_.next(), "each window is a sample");
    if (questions_.starts_question()) {
      finish_question();
      question_ = questions_.question();
      open_ = true;
    }
    collector_.add(kept, questions_.characters());
  }

  /// Questions whose answers are not known do not count.
  void finish(metrics::Evaluation* evaluation) override {
    finish_question();
    if (evaluation != nullptr) add_to(evaluation->sums_of(metrics::answers()));
    if (files_) files_->close();
  }

 private:
  void add_to(metrics::Sums sums) {
    constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    accumulators_.exact = accumulators_.f1 = {unknown, unknown};
    if (!scored_.empty()) {
      std::stable_sort(scored_.begin(), scored_.end(),
                       [](const Scored& a, const Scored& b) { return a.odds < b.odds; });
      accumulators_.exact = best_answers(scored_, &Scored::exact, accumulators_.has + accumulators_.no);
      accumulators_.f1 = best_answers(scored_, &Scored::f1, accumulators_.has + accumulators_.no);
    }
    accumulators_.to(sums);
  }

  void finish_question();

  AnswerCollector collector_;
  data::AnswerReader questions_;
  data::QuestionTexts question_;
  bool open_ = false;
  std::optional<AnswerFiles> files_;
  metrics::AnswerSums accumulators_;
  std::vector<Scored> scored_;  // (questions)
};

void AnswerResultCollector::finish_question() {
  if (!open_) return;
  open_ = false;
  AnsweredQuestion answer = collector_.finish(question_.context);
  answer.id = question_.id;
  if (question_.answers) {
    const std::vector<std::string>& gold = *question_.answers;
    const score::AnswerScore score = score::squad_answer_score(gold, answer.text);
    const bool has = !gold.empty();
    (has ? accumulators_.has : accumulators_.no) += 1;
    accumulators_.answered += answer.text.empty() ? 0 : 1;
    (has ? accumulators_.has_exact : accumulators_.no_exact) += score.exact;
    (has ? accumulators_.has_f1 : accumulators_.no_f1) += score.f1;
    if (answer.null_odds) {
      const auto best = std::find_if(answer.n_best.begin(), answer.n_best.end(),
                                     [](const AnswerChoice& choice) { return !choice.text.empty(); });
      const score::AnswerScore answered = score::squad_answer_score(gold, best->text);
      scored_.push_back({*answer.null_odds, answered.exact, answered.f1, has});
    }
  }
  if (files_) files_->add(answer);
}

class AnswerResults : public SampleResults {
 public:
  AnswerResults(const config::Task& task, const data::ShardReader& reader, std::mutex& hdf5)
      : reader_(reader), hdf5_(hdf5), settings_(answer_settings(task, reader)) {}

  std::int64_t width(std::int64_t) const override { return window_width(settings_); }

  /// The best spans of the sequence.
  void keep(std::int64_t sample, std::span<const float> outputs, std::span<float> kept) const override {
    const auto context = reader_.contexts().subspan(static_cast<std::size_t>(2 * sample), 2);
    best_spans(outputs, context[0], context[1], settings_, kept);
  }

  std::unique_ptr<ResultCollector> collect(const PredictionsFacts* files) const override {
    return std::make_unique<AnswerResultCollector>(settings_, reader_, files, hdf5_);
  }

 private:
  const data::ShardReader& reader_;
  std::mutex& hdf5_;
  AnswerSettings settings_;
};

}  // namespace

Objective question_answering() {
  return {.task = tasks::find("question_answering"),
          .head = layers::span_head(),
          .distillation = {layers::soft_span_loss, {"kl", "mse_logits"}},
          .results = [](const ResultsRequest& data) -> std::unique_ptr<SampleResults> {
            require_texts(data.reader);
            return std::make_unique<AnswerResults>(data.task, data.reader, data.hdf5);
          }};
}

}  // namespace bert_hpc::objectives
