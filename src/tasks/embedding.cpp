// Embeddings of texts, trained so that the similarity of two embeddings measures that of their texts. A row has an
// anchor, a positive and any number of negatives; or two texts, or an anchor, a positive and a negative, and a score.
#include <limits>

#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::tasks {

const Task& embedding() {
  static const Task task = {
      .name = "embedding",
      .labels = Labels::scores,
      .rows = LogitPositions::all_tokens,
      .embeds_texts = true,
      .predicts_samples = false,
      .metrics = {&metrics::text_similarity(), &metrics::batch_ranks(), &metrics::text_triplets()},
      .keys = {{.name = loss_key,
                .usual = Words{{multiple_negatives_loss, cosine_similarity_loss, triplet_loss, margin_mse_loss}}},
               {.name = pooling_key, .usual = Words{{"mean", "cls", "max", "last"}}, .optional = true},
               {.name = similarity_key, .usual = Words{{"cosine", "dot", "euclidean"}}, .optional = true},
               {.name = margin_key, .usual = 0.5, .low = 0, .high = 1e4, .high_open = false},
               {.name = range_key,
                .usual = WordOrNumbers{"labels"},
                .low = -std::numeric_limits<float>::max(),
                .high = std::numeric_limits<float>::max()},
               {.name = dimensions_key, .usual = WordOrNumbers{"all"}, .low = 1, .high = 1e6, .low_open = false},
               {.name = scale_key, .usual = 20.0, .low = 0, .high = 1e4, .high_open = false},
               {.name = symmetric_key, .usual = false},
               {.name = skip_duplicates_key, .usual = false}}};
  return task;
}

}  // namespace bert_hpc::tasks
