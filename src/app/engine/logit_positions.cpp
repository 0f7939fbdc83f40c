#include "app/engine/logit_positions.hpp"

#include <algorithm>

#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::app {

data::BatchLoaderOptions task_batches(const config::Task& task) {
  data::BatchLoaderOptions options;
  const objectives::Objective& objective = objectives::named(task.name);
  if (objective.set_batches != nullptr) objective.set_batches(task, options);
  return options;
}

double expected_targets(const config::Config& input, double sequences, double tokens, double computed) {
  switch (objectives::of(input).task->rows) {
    case tasks::LogitPositions::first_tokens:
      return sequences;
    case tasks::LogitPositions::masked_tokens:
      return task_batches(input.task).mask_probability * tokens +
             (objectives::of(input).task->labels_pairs ? sequences : 0.0);
    case tasks::LogitPositions::next_tokens:
      return std::max(tokens - sequences, 0.0);
    case tasks::LogitPositions::all_tokens:
      return computed;
    case tasks::LogitPositions::words:
      return tokens;
  }
  return sequences;
}

std::int64_t planned_targets(const tasks::Task& task, std::int64_t sequences, std::int64_t tokens) {
  switch (task.rows) {
    case tasks::LogitPositions::first_tokens:
      return sequences;
    case tasks::LogitPositions::masked_tokens:
      return tokens / 5 + (task.labels_pairs ? sequences : 0);
    case tasks::LogitPositions::next_tokens:
    case tasks::LogitPositions::all_tokens:
    case tasks::LogitPositions::words:
      return tokens;
  }
  return sequences;
}

}  // namespace bert_hpc::app
