// Answers to questions in the files that SQuAD's scorers and Transformers' scripts have: predictions.json,
// nbest_predictions.json and null_odds.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace bert_hpc::io {

struct AnswerChoice {
  std::string text;
  float start_logit = 0, end_logit = 0;
  double probability = 0;  ///< among the question's choices
};

struct AnsweredQuestion {
  std::string id;
  std::string text;                  ///< "" for none
  std::vector<AnswerChoice> n_best;  ///< the best first
  /// Score of "no answer" less that of the best answer; only where questions may have none.
  std::optional<double> null_odds;
};

/// Writes the files into `directory`; null_odds.json only where questions have odds. Throws Error(files).
void write_answer_files(const std::string& directory, const std::vector<AnsweredQuestion>& questions);

}  // namespace bert_hpc::io
