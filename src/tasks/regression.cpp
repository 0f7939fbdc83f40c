// A number for each sequence. Training works on standardized labels (data/label_scale.hpp) unless
// task.standardize = false. Predictions may be clipped; the loss never is. With loss = "concordance" it is one over all
// sequences of a step.
#include <limits>

#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

const Task& regression() {
  static const Task task = {
      .name = "regression",
      .labels = Labels::values,
      .problem_type = "regression",
      .metrics = {&metrics::value_statistics()},
      .keys = {{.name = clip_predictions_key,
                .usual = WordOrNumbers{"labels"},
                .low = -std::numeric_limits<float>::max(),
                .high = std::numeric_limits<float>::max()},
               {.name = loss_key, .usual = Words{{"squared_error", concordance_loss}}, .usual_in_training_only = true},
               {.name = standardize_key, .usual = true, .usual_in_training_only = true}}};
  return task;
}

}  // namespace bert_hpc::tasks
