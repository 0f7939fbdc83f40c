// Masked language modelling of pairs of texts, and beside it whether the second text is the one behind the first, as
// BERT (Devlin et al. 2019, section 3.1, next sentence prediction) and ALBERT (Lan et al. 2020, section 3.1, sentence
// order) are pretrained. The loss is the sum of both means. Labels are classes of pairs: 0 for texts in their order, 1
// for others.
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

const Task& masked_lm_pairs() {
  static const Task task = {.name = "masked_lm_pairs",
                            .labels = Labels::classes,
                            .rows = LogitPositions::masked_tokens,
                            .labels_pairs = true,
                            .predicts_samples = false,
                            .metrics = {&metrics::pretraining_counts()},
                            .keys = masking_keys()};
  return task;
}

}  // namespace bert_hpc::tasks
