// How well a passage answers a query: a score for each pair. The candidates of a query are neighbours, and metrics are
// of queries. Training takes each pair by itself, or with loss = "listwise" all candidates of a query together.
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

const Task& answer_ranking() {
  static const Task task = {.name = "answer_ranking",
                            .labels = Labels::levels,
                            .row_texts = 3,
                            .metrics = {&metrics::rankings()},
                            .keys = {{.name = answer_threshold_key, .usual = 0.0, .low = -1e6, .high = 1e6},
                                     {.name = loss_key, .usual = Words{{"binary", listwise_loss}}},
                                     {.name = skip_unanswerable_key, .usual = true}}};
  return task;
}

}  // namespace bert_hpc::tasks
