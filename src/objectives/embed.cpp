// What mode "embed" computes of shards of any task: embeddings of sequences or tokens. No input names it as a task.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {
namespace {

using ops::Pooling;

Objective of_tokens(std::optional<Pooling> pooling) {
  static const tasks::Task task = {
      .name = "embed", .rows = tasks::LogitPositions::all_tokens, .predicts_samples = false, .metrics = {}, .keys = {}};
  return {.task = &task, .head = layers::token_embedding_head(pooling)};
}

Objective of_first_tokens() {
  static const tasks::Task task = {.name = "embed", .predicts_samples = false, .metrics = {}, .keys = {}};
  return {.task = &task, .head = layers::embedding_head()};
}

}  // namespace

const Objective& embed(const config::Embed& embed) {
  static const Objective cls = of_first_tokens(), mean = of_tokens(Pooling::mean), max = of_tokens(Pooling::max),
                         last = of_tokens(Pooling::last), tokens = of_tokens(std::nullopt);
  const std::string pooling = embed.pooling.value_or("cls");
  if (pooling == "cls") return cls;
  if (pooling == "mean") return mean;
  if (pooling == "max") return max;
  return pooling == "last" ? last : tokens;
}

}  // namespace bert_hpc::objectives
