// Classes of words, with the head of Transformers' ForTokenClassification. Predictions are written sentence by sentence
// (app/engine/word_results.hpp).
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {

Objective token_classification() {
  return {.task = tasks::find("token_classification"), .head = layers::token_head()};
}

}  // namespace bert_hpc::objectives
