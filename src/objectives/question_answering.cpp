// Two scores for each token, as the first and as the last of an answer. Predictions are made of all windows of a
// question (objectives/answers.hpp).
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {

Objective question_answering() {
  return {.task = tasks::find("question_answering"), .head = layers::span_head()};
}

}  // namespace bert_hpc::objectives
