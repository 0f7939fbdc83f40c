// Any number of label names for each sequence, none among them.
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"
#include "bert_hpc/tasks/window_pooling.hpp"

namespace bert_hpc::tasks {

const Task& multi_label() {
  static const Task task = {.name = "multi_label",
                            .labels = Labels::sets,
                            .problem_type = "multi_label_classification",
                            .metrics = {&metrics::label_sets()},
                            .keys = {{.name = threshold_key, .usual = WordOrNumbers{"search"}}, window_pooling_key()}};
  return task;
}

}  // namespace bert_hpc::tasks
