// One class of several for each sequence.
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

const Task& classification() {
  static const Task task = {.name = "classification",
                            .labels = Labels::classes,
                            .problem_type = "single_label_classification",
                            .metrics = {&metrics::class_counts(), &metrics::binary_ranking()},
                            .keys = {}};
  return task;
}

}  // namespace bert_hpc::tasks
