// Embeddings: what mode "embed" computes of shards of any task. No input names it as a task.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {
namespace {

using ops::Pooling;

Objective of_tokens(std::optional<Pooling> pooling) {
  static const tasks::Task task = {
      .name = "embedding", .rows = tasks::HeadRows::all_tokens, .predicts_samples = false, .metrics = {}, .keys = {}};
  return {.task = &task, .head = layers::token_embedding_head(pooling)};
}

Objective of_first_tokens() {
  static const tasks::Task task = {.name = "embedding", .predicts_samples = false, .metrics = {}, .keys = {}};
  return {.task = &task, .head = layers::embedding_head()};
}

}  // namespace

const Objective& embedding(const config::Embed& embed) {
  static const Objective cls = of_first_tokens(), mean = of_tokens(Pooling::mean), max = of_tokens(Pooling::max),
                         last = of_tokens(Pooling::last), tokens = of_tokens(std::nullopt);
  if (embed.pooling == "cls") return cls;
  if (embed.pooling == "mean") return mean;
  if (embed.pooling == "max") return max;
  return embed.pooling == "last" ? last : tokens;
}

}  // namespace bert_hpc::objectives
