// Embeddings of texts with classes, trained so that texts of a class are near each other and far from those of others.
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

const Task& class_embedding() {
  static const Task task = {
      .name = "class_embedding",
      .labels = Labels::classes,
      .rows = LogitPositions::all_tokens,
      .embeds_texts = true,
      .predicts_samples = false,
      .metrics = {&metrics::class_neighbours()},
      .keys = {{.name = loss_key,
                .usual = Words{{batch_hard_loss, batch_hard_soft_margin_loss, batch_semi_hard_loss, batch_all_loss}}},
               {.name = pooling_key, .usual = Words{{"mean", "cls", "max", "last"}}, .optional = true},
               {.name = similarity_key, .usual = Words{{"euclidean", "cosine"}}},
               {.name = margin_key, .usual = 5.0, .low = 0, .high = 1e4, .high_open = false}}};
  return task;
}

}  // namespace bert_hpc::tasks
