// The part of a context that answers a question, or none (Rajpurkar et al. 2016, 2018). Long contexts are several
// sequences, windows of one question.
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

const Task& question_answering() {
  static const Task task = {
      .name = "question_answering",
      .labels = Labels::spans,
      .rows = LogitPositions::all_tokens,
      .predicts_validation = true,  // benchmarks publish no other labelled data
      .row_texts = 3,               // id, context, answers: data/answer_data.hpp
      .metrics = {&metrics::answers()},
      .keys = {{.name = max_answer_tokens_key, .usual = 30.0, .low = 1, .high = 1e6, .low_open = false},
               {.name = n_best_key, .usual = 20.0, .low = 1, .high = 1000, .low_open = false, .high_open = false},
               {.name = no_answer_key, .usual = true, .optional = true},
               {.name = null_threshold_key, .usual = 0.0, .low = -1e6, .high = 1e6}}};
  return task;
}

}  // namespace bert_hpc::tasks
