// The model as the input and the data state it.
#include "bert_hpc/app/engine/assembly.hpp"

#include "bert_hpc/app/engine/model_labels.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/model/hf_config.hpp"

namespace bert_hpc::app {

using core::Error;
using core::ExitCode;

double mask_probability(const config::Config& input) {
  return input.task.number(tasks::mask_probability_key, 0.15);
}

double expected_targets(const config::Config& input, double sequences, double tokens) {
  const bool masks = tasks::named(input.task.name).masks_tokens;
  return masks ? mask_probability(input) * tokens : sequences;
}

model::ModelConfig stated_model(const config::Config& input) {
  model::ModelConfig config;
  if (input.model.pretrained) {
    config = model::read_hf_config(*input.model.pretrained);
  } else {
    config = model::default_config(input.model.family);
  }
  core::ProblemList problems;
  const auto set = [](auto& target, const auto& given) {
    if (given) target = *given;
  };
  // The sizes of a model that is there are what they are.
  const auto set_size = [&](const char* name, auto& target, const auto& given) {
    if (given && input.model.pretrained && *given != target) {
      problems.add("model." + std::string(name) + " = " + std::to_string(*given) + ", but config.json in '" +
                   *input.model.pretrained + "' says " + std::to_string(target) +
                   "; leave it out: with model.pretrained the sizes are that model's.");
    }
    set(target, given);
  };
  const config::Model& m = input.model;
  set_size("vocab_size", config.vocab_size, m.vocab_size);
  set_size("hidden_size", config.hidden_size, m.hidden_size);
  set_size("num_hidden_layers", config.num_hidden_layers, m.num_hidden_layers);
  set_size("num_attention_heads", config.num_attention_heads, m.num_attention_heads);
  set_size("intermediate_size", config.intermediate_size, m.intermediate_size);
  set_size("max_position_embeddings", config.max_position_embeddings, m.max_position_embeddings);
  set_size("type_vocab_size", config.type_vocab_size, m.type_vocab_size);
  set(config.hidden_dropout_prob, m.hidden_dropout_prob);
  set(config.attention_probs_dropout_prob, m.attention_probs_dropout_prob);
  if (m.classifier_dropout) config.classifier_dropout = m.classifier_dropout;
  set(config.layer_norm_eps, m.layer_norm_eps);
  set(config.initializer_range, m.initializer_range);
  set(config.hidden_act, m.hidden_act);
  if (problems.empty()) model::check(config, problems);
  problems.throw_if_any(ExitCode::input, "the model cannot be created:");
  return config;
}

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
  m.hidden_dropout_prob = stated.hidden_dropout_prob;
  m.attention_probs_dropout_prob = stated.attention_probs_dropout_prob;
  m.classifier_dropout = stated.classifier_dropout;
  m.layer_norm_eps = stated.layer_norm_eps;
  m.initializer_range = stated.initializer_range;
  m.hidden_act = stated.hidden_act;
}

/// The input without what it may leave out: only what defaults depend on is taken from it.
config::Config with_defaults(const config::Config& input) {
  config::Config usual = config::default_config(input.optimizer.known);
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
  fill(usual.model, stated_model(usual));
  usual.model.pretrained.reset();
  if (input.evaluation.every_steps) usual.evaluation.every_epochs.reset();
  return usual;
}

}  // namespace

ResolvedInput resolved_input(config::Config& input, const model::ModelConfig& stated) {
  fill(input.model, stated);
  return {config::to_toml(input), config::to_toml(with_defaults(input))};
}

namespace {

bool vocabulary_is_stated(const config::Config& input) {
  return input.model.pretrained.has_value() || input.model.vocab_size.has_value();
}

}  // namespace

data::ShardLimits shard_limits(const config::Config& input, const model::ModelConfig& stated, bool labels) {
  data::ShardLimits limits;
  limits.task = &tasks::named(input.task.name);
  limits.vocabulary_size = vocabulary_is_stated(input) ? stated.vocab_size : 0;
  limits.max_length = stated.max_position_embeddings;
  constexpr std::int64_t any_type = 256;  // shards hold them in a byte; a model without token types reads none
  limits.type_vocabulary = stated.type_vocab_size > 0 ? stated.type_vocab_size : any_type;
  limits.labels = labels;
  return limits;
}

namespace {

/// Throws Error(input) where the data do not have what the metric of evaluation.best needs.
void require_best_metric(const config::Config& input, std::int64_t labels) {
  const metrics::Metric* const metric = metrics::find_metric(input.evaluation.best.value_or(""));
  if (metric == nullptr || metric->outputs == 0 || metric->outputs == labels) return;
  throw Error(ExitCode::input, "[evaluation] best = \"" + metric->name + "\" is a metric of " +
                                   core::counted(metric->outputs, "class", "classes") + ", but the data have " +
                                   std::to_string(labels) + ": choose another metric.");
}

}  // namespace

model::ModelConfig complete_model(const config::Config& input, const model::ModelConfig& stated,
                                  const data::ShardInfo& shards, const data::SpecialIds& special) {
  model::ModelConfig config = stated;
  if (!vocabulary_is_stated(input)) config.vocab_size = shards.vocabulary_size;
  if (shards.vocabulary_size > config.vocab_size) {
    throw Error(ExitCode::data, "the shards were made with a vocabulary of " + std::to_string(shards.vocabulary_size) +
                                    " pieces, the model has only " + std::to_string(config.vocab_size) +
                                    ". Prepare the data with the model's own vocabulary ([tokenizer] vocabulary), or "
                                    "leave model.vocab_size out.");
  }
  const tasks::Task& task = tasks::named(input.task.name);
  if (task.labels != tasks::Labels::none) {
    config.label_names = task.has_label_names() ? labels_in_use(input.run.mode, stated.label_names, shards.label_names)
                                                : model::default_label_names(1);
    config.problem_type = task.problem_type;
  }
  require_best_metric(input, config.num_labels());
  if (special.pad >= 0) config.pad_token_id = special.pad;
  return config;
}

}  // namespace bert_hpc::app
