#include "app/engine/resolved_input.hpp"

#include <algorithm>

#include "app/engine/low_rank.hpp"
#include "app/engine/model_from_config.hpp"
#include "app/engine/sentence_modules.hpp"
#include "app/engine/teacher.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::app {
namespace {

void fill(config::Model& m, const model::ModelConfig& stated) {
  m.family = stated.family;
  if (m.pretrained) m.vocab_size = stated.vocab_size;
  m.hidden_size = stated.hidden_size;
  m.num_hidden_layers = stated.num_hidden_layers;
  m.num_attention_heads = stated.num_attention_heads;
  m.intermediate_size = stated.intermediate_size;
  m.max_position_embeddings = stated.max_position_embeddings;
  if (stated.type_vocab_size > 0) m.type_vocab_size = stated.type_vocab_size;
  if (model::has_attention(stated.family) && stated.embedding_size > 0) m.embedding_size = stated.embedding_size;
  if (!model::has_attention(stated.family)) {
    for (const auto& [key, size] : config::attention_sizes(m)) size->reset();
  }
  m.own_numbers.clear();
  for (const auto& [key, number] : model::own_numbers(stated)) m.own_numbers[key] = number;
  m.own_words.clear();
  for (const auto& [key, word] : model::own_words(stated)) m.own_words[key] = word;
  m.initializer_range = stated.initializer_range;
}

/// The input without what it may leave out: only what defaults depend on is taken from it.
config::Config with_defaults(const config::Config& input) {
  config::Config usual = config::default_config(input.optimizer.known, input.model.known);
  usual.run.mode = input.run.mode;
  usual.run.reproducible = input.run.reproducible;
  usual.model.family = input.model.family;
  usual.model.pretrained = input.model.pretrained;
  usual.task.name = input.task.name;
  usual.data.validation = input.data.validation;
  usual.batch.global = input.batch.global;
  usual.schedule.name = input.schedule.name;
  usual.optimizer.name = input.optimizer.name;
  config::resolve(usual);
  const model::ModelConfig stated = model_from_config(usual);
  settle_pooling(usual, stated.hidden_size);
  fill(usual.model, stated);
  usual.model.pretrained.reset();
  if (input.evaluation.every_steps) usual.evaluation.every_epochs.reset();
  return usual;
}

}  // namespace

ResolvedInput resolved_search(const config::Config& input) {
  config::Config usual = config::default_config(input.optimizer.known, input.model.known);
  usual.run.mode = input.run.mode;
  config::resolve(usual);
  return {config::to_toml(input), config::to_toml(usual)};
}

ResolvedInput resolved_input(config::Config& input, const model::ModelConfig& stated) {
  fill(input.model, stated);
  if (input.run.mode == "train" && input.model.trainable == "lora") {
    const model::LowRankSettings settings = low_rank_settings(input, stated.family);
    config::Lora& lora = input.model.lora;
    lora.rank = settings.rank;
    lora.alpha = settings.alpha;
    lora.dropout = settings.dropout;
    lora.rslora = settings.rank_stabilized;
    lora.dora = settings.magnitudes;
    const bool has_own_head = !objectives::of(input).head.predicts_tokens;
    if (has_own_head) lora.train_head = lora.train_head.value_or(true);
  }
  if (input.distills()) {
    input.distill.losses = soft_losses(input);
    if (input.distill.teacher) input.distill.compute = input.distill.compute.value_or(input.precision.compute);
  }
  return {config::to_toml(input), config::to_toml(with_defaults(input))};
}

}  // namespace bert_hpc::app
