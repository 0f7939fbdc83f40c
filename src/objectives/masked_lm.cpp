#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {

void set_masking(const config::Task& task, data::BatchLoaderOptions& options) {
  options.mask_probability = task.number(tasks::mask_probability_key);
  options.evaluation_mask_probability = task.given_number(tasks::evaluation_mask_probability_key);
  options.mask_whole_words = task.is_on(tasks::mask_whole_words_key);
}

Objective masked_lm() {
  return {.task = tasks::find("masked_lm"),
          .head = layers::masked_lm_head(),
          .distillation = {layers::soft_class_loss, {"kl", "mse_logits"}},
          .set_batches = set_masking};
}

}  // namespace bert_hpc::objectives
