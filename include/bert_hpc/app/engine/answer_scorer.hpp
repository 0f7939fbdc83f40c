// On rank 0: the answers of a data set's questions from the best spans of their windows, and how right they are.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/answer_data.hpp"
#include "bert_hpc/metrics/answers.hpp"
#include "bert_hpc/objectives/answers.hpp"

namespace bert_hpc::app {

/// Of the input's [task]. Questions may have no answer where the key says so; without the key, where the data have such
/// questions or do not say. Throws Error(data) where the shards lack texts.
objectives::AnswerSettings answer_settings(const config::Task& task, const data::ShardReader& reader);

class AnswerScorer {
 public:
  /// `reader` must outlive it.
  AnswerScorer(const data::ShardReader& reader, std::mutex& hdf5, const objectives::AnswerSettings& settings);

  /// The next sample's objectives::best_spans(). Finished questions are appended to `answers` unless it is null.
  void add(std::span<const float> window, std::vector<io::AnsweredQuestion>* answers);
  /// After the last sample. `sums`: of metrics::answers(), or empty. Questions whose answers are not known do not
  /// count.
  void finish(metrics::Sums sums, std::vector<io::AnsweredQuestion>* answers);

 private:
  /// A question with known answers, for the best threshold.
  struct Scored {
    double odds = 0, exact = 0, f1 = 0;  ///< of the answer that is not "none"
    bool has_answer = false;
  };
  void finish_question(std::vector<io::AnsweredQuestion>* answers);

  data::AnswerReader questions_;
  objectives::AnswerSettings settings_;
  objectives::AnswerCollector collector_;
  data::QuestionTexts question_;
  bool open_ = false;
  metrics::AnswerSums sums_;
  std::vector<Scored> scored_;
};

}  // namespace bert_hpc::app
