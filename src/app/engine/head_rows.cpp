#include "bert_hpc/app/engine/head_rows.hpp"

#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {

double mask_probability(const config::Config& input) {
  return input.task.number(tasks::mask_probability_key, 0.15);
}

double expected_targets(const config::Config& input, double sequences, double tokens) {
  const bool masks = tasks::named(input.task.name).masks_tokens;
  return masks ? mask_probability(input) * tokens : sequences;
}

}  // namespace bert_hpc::app
