// A class for each word of a text that is given in words: named entities, parts of speech. A text that is too long is
// several sequences, windows of one row; each word belongs to one of them.
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

const Task& token_classification() {
  static const Task task = {.name = "token_classification",
                            .labels = Labels::words,
                            .rows = LogitPositions::words,
                            .row_texts = 1,  // the words
                            .metrics = {&metrics::class_counts(), &metrics::entities()},
                            .keys = {{.name = all_pieces_key, .usual = false}}};
  return task;
}

}  // namespace bert_hpc::tasks
