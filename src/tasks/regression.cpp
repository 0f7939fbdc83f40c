// A number for each sequence, or one for each of several label columns. Training works on standardized labels
// (data/label_scale.hpp) unless task.standardize = false, or with task.range on labels scaled to 0 … 1, where a sigmoid
// bounds predictions. Predictions may be clipped; the loss never is. With loss = "concordance" it is one over all
// sequences of a step. With task.levels metrics and predictions name the nearest of the labels' values too.
#include <limits>

#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"
#include "bert_hpc/tasks/window_pooling.hpp"

namespace bert_hpc::tasks {
namespace {

Key numbers_or_labels(const char* name, const char* other = "") {
  return {.name = name,
          .usual = WordOrNumbers{"labels"},
          .low = -std::numeric_limits<float>::max(),
          .high = std::numeric_limits<float>::max(),
          .other = other};
}

}  // namespace

const Task& regression() {
  static const Task task = {
      .name = "regression",
      .labels = Labels::values,
      .problem_type = "regression",
      .metrics = {&metrics::value_statistics(), &metrics::value_levels()},
      .keys = {numbers_or_labels(clip_predictions_key, range_key),
               numbers_or_labels(levels_key),
               numbers_or_labels(range_key),
               {.name = loss_key, .usual = Words{{"squared_error", concordance_loss}}, .usual_in_training_only = true},
               {.name = standardize_key, .usual = true, .usual_in_training_only = true, .other = range_key},
               window_pooling_key()}};
  return task;
}

}  // namespace bert_hpc::tasks
