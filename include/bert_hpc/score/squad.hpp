// The numbers of SQuAD's official scripts: evaluate-v1.1.py for files whose "version" is "1.1", evaluate-v2.0.py for
// all others (Rajpurkar et al. 2016 and 2018). Sums are added in the order of the questions, as Python's sum() does up
// to version 3.11; later versions compensate roundings and can differ in the last digit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bert_hpc/score/scorer.hpp"

namespace bert_hpc::score {

struct Question {
  std::string id;
  std::vector<std::string> answers{};  ///< empty: the question has no answer
};

struct NoAnswerProbability {
  std::string id;
  double value;
};

using Predictions = std::map<std::string, std::string>;  ///< question's id → text, empty for "no answer"

/// The larger a match, over the gold answers: 0 or 1, and the F1 of the bags of words.
struct AnswerScore {
  double exact = 0.0, f1 = 0.0;
};
AnswerScore squad_answer_score(const std::vector<std::string>& answers, const std::string& prediction);

/// exact_match and f1 in percent; a question without prediction counts 0 and adds a note.
Result squad1_result(const std::vector<Question>& questions, const Predictions& predictions);

/// exact, f1 and total, for HasAns and NoAns too; with probabilities also the best thresholds. A question whose
/// probability is above 1 is scored as if its prediction were empty. Each question needs a prediction and, if
/// probabilities are given, one of those: std::out_of_range otherwise. probabilities: in the file's order, which breaks
/// ties.
Result squad2_result(const std::vector<Question>& questions, const Predictions& predictions,
                     const std::vector<NoAnswerProbability>& probabilities);

}  // namespace bert_hpc::score
