// Causal language modelling: each token is predicted from those before it in its sequence. The first token of a
// sequence is not predicted.
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

const Task& causal_lm() {
  static const Task task = {.name = "causal_lm",
                            .rows = LogitPositions::next_tokens,
                            .packs_rows = true,
                            .metrics = {&metrics::token_counts()},
                            .keys = {}};
  return task;
}

}  // namespace bert_hpc::tasks
