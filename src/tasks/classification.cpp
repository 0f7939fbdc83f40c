// One class of several for each sequence. Class weights, label smoothing and the focal loss change the loss of training
// steps (ops/weighted_cross_entropy.hpp); evaluations report the plain cross entropy.
#include <limits>

#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"
#include "bert_hpc/tasks/window_pooling.hpp"

namespace bert_hpc::tasks {

const Task& classification() {
  static const Task task = {
      .name = "classification",
      .labels = Labels::classes,
      .problem_type = "single_label_classification",
      .metrics = {&metrics::class_counts(), &metrics::binary_ranking(), &metrics::calibration()},
      .keys = {
          {.name = class_weights_key,
           .usual = WordOrNumbers{"balanced"},
           .high = std::numeric_limits<double>::infinity(),
           .low_open = false},
          {.name = focal_gamma_key, .usual = 0.0, .high = 100, .low_open = false, .high_open = false, .optional = true},
          {.name = label_smoothing_key, .usual = 0.0, .low_open = false, .optional = true},
          window_pooling_key()}};
  return task;
}

}  // namespace bert_hpc::tasks
