// Masked language modelling: task.mask_probability of a sequence's tokens are masked and to be guessed
// (data/masking.hpp).
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

std::vector<Key> masking_keys() {
  return {{.name = mask_probability_key, .usual = 0.15},
          {.name = evaluation_mask_probability_key, .usual = 0.15, .optional = true},
          {.name = mask_whole_words_key, .usual = false}};
}

const Task& masked_lm() {
  static const Task task = {.name = "masked_lm",
                            .rows = LogitPositions::masked_tokens,
                            .packs_rows = true,
                            .predicts_samples = false,
                            .metrics = {&metrics::token_counts()},
                            .keys = masking_keys()};
  return task;
}

}  // namespace bert_hpc::tasks
