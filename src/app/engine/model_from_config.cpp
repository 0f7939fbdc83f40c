#include "app/engine/model_from_config.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "app/engine/embedding_model.hpp"
#include "app/engine/hidden_states.hpp"
#include "app/engine/low_rank.hpp"
#include "app/engine/model_labels.hpp"
#include "app/engine/step_loss.hpp"
#include "app/engine/training_settings.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/trainable.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {

using core::Error;
using core::ExitCode;

namespace {

bool vocabulary_is_stated(const config::Config& input) {
  return input.model.pretrained.has_value() || input.model.vocab_size.has_value();
}

/// Throws Error(input) if the data do not have what the metric of evaluation.best needs.
void require_best_metric(const config::Config& input, std::int64_t labels) {
  const metrics::Metric* const metric = metrics::find_metric(input.evaluation.best.value_or(""));
  if (metric == nullptr || metric->outputs == 0 || metric->outputs == labels) return;
  throw Error(ExitCode::input, "[evaluation] best = \"" + metric->name + "\" is a metric of " +
                                   core::counted(metric->outputs, "class", "classes") + ", but the data have " +
                                   std::to_string(labels) + ": choose another metric.");
}

}  // namespace

model::ModelConfig model_from_config(const config::Config& input) {
  model::ModelConfig config;
  if (input.model.pretrained) {
    config = model::read_hf_config(folder_of_labels(input.model));
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
  if (m.pretrained && m.family != config.family && m.family != config::Model{}.family) {
    problems.add("model.family = \"" + m.family + "\", but config.json in '" + *m.pretrained + "' says \"" +
                 config.family + "\"; leave it out: with model.pretrained the family is that model's.");
  }
  set_size("vocab_size", config.vocab_size, m.vocab_size);
  set_size("hidden_size", config.hidden_size, m.hidden_size);
  set_size("embedding_size", config.embedding_size, m.embedding_size);
  set_size("num_hidden_layers", config.num_hidden_layers, m.num_hidden_layers);
  set_size("num_attention_heads", config.num_attention_heads, m.num_attention_heads);
  set_size("intermediate_size", config.intermediate_size, m.intermediate_size);
  set_size("max_position_embeddings", config.max_position_embeddings, m.max_position_embeddings);
  set_size("type_vocab_size", config.type_vocab_size, m.type_vocab_size);
  set(config.initializer_range, m.initializer_range);
  const auto set_own = [&](const std::string& key, bool is_known) {
    if (is_known) return;
    problems.add("model." + key + " is not a setting of \"" + config.family + "\": leave it out.");
  };
  for (const auto& [key, given] : m.own_numbers) {
    if (given) set_own(key, model::set_own_number(config, key, *given));
  }
  for (const auto& [key, given] : m.own_words) {
    if (given) set_own(key, model::set_own_word(config, key, *given));
  }
  if (problems.empty()) model::check_model(config, problems);
  problems.throw_if_any(ExitCode::input, "the model cannot be created:");
  return config;
}

model::ModelConfig embedding_model(const config::Config& input, model::ModelConfig config) {
  if (!input.embeds()) return config;
  const std::int64_t blocks = config.num_hidden_layers, layer = input.embed.layer.value_or(-1);
  const std::string folder = input.model.pretrained.value_or("");
  if (layer == 0 || layer > blocks || layer < -blocks) {
    throw Error(ExitCode::input, "[embed] layer = " + std::to_string(layer) + ", but the model in '" + folder +
                                     "' has " + core::counted(blocks, "block") + ": choose 1 to " +
                                     std::to_string(blocks) +
                                     ", or -1 for the last one, -2 for the one before it, and so on.");
  }
  const std::int64_t dimensions = input.embed.dimensions.value_or(1);
  if (dimensions > config.hidden_size) {
    throw Error(ExitCode::input, "[embed] dimensions = " + std::to_string(dimensions) + ", but the model in '" +
                                     folder + "' has " + std::to_string(config.hidden_size) + ": choose at most that.");
  }
  config.num_hidden_layers = layer > 0 ? layer : blocks + 1 + layer;
  // The norm behind a pre-norm model's block is the next one's, or the final one, and no part of its result.
  const model::ModelPlan plan = model::make_plan(config, objectives::of(input).head, 1);
  config.outputs_sum = config.num_hidden_layers < blocks && plan.hands_on_sum(plan.sublayer_count() - 1);
  return config;
}

namespace {

/// Throws Error(input) for more blocks than the model has, and where something else excludes recomputation.
model::Recomputation recomputation_of(const config::Config& input, const model::ModelPlan& plan) {
  const std::int64_t of_block = plan.sublayers_of_block();
  const config::Model& m = input.model;
  model::Recomputation recomputation{.attention = m.recompute == "attention"};
  if (m.recompute == "blocks") recomputation.sublayers = plan.sublayer_count();
  const std::int64_t blocks = plan.sublayer_count() / of_block;
  if (!m.recompute_blocks.empty()) {
    const double given = m.recompute_blocks.front();
    if (m.recompute_blocks.size() > 1 || given != std::floor(given) || given > static_cast<double>(blocks)) {
      throw Error(ExitCode::input,
                  "[model] recompute must be \"none\", \"attention\", \"blocks\" or a whole number of "
                  "blocks from 0 to " +
                      std::to_string(blocks) + ", those of the model.");
    }
    recomputation.sublayers = of_block * static_cast<std::int64_t>(given);
  }
  if (!recomputation.attention && recomputation.sublayers == 0) return recomputation;
  const auto excludes = [](const std::string& key) {
    throw Error(ExitCode::input, "[model] recompute does not go with " + key + ": change one of them.");
  };
  if (input.precision.compute == "fp8") excludes("[precision] compute = \"fp8\"");
  if (input.parallel.pipeline_schedule == "zb_h1") {
    excludes(
        "[parallel] pipeline_schedule = \"zb_h1\", which computes gradients of weights later than those of inputs");
  }
  return recomputation;
}

}  // namespace

model::ModelPlan plan_of(const config::Config& input, const model::ModelConfig& config, const model::HeadKind& kind,
                         bool trains) {
  model::ModelPlan plan =
      model::make_plan(config, kind, std::max<std::int64_t>(1, config.num_labels()), storage_type(input));
  if (trains) {
    plan.head.reads_all_logits = input.distills();
    if (input.model.trainable == "lora") {
      model::add_adapters(plan, low_rank_settings(input, config.family), input.model.freeze_layers);
    }
    model::set_trains(plan, model::trainable_parameters(plan, {.parameters = input.model.trainable,
                                                               .freeze_layers = input.model.freeze_layers,
                                                               .from_scratch = !input.model.pretrained,
                                                               .head = input.model.lora.train_head.value_or(true)}));
    plan.recomputation = recomputation_of(input, plan);
    // Losses between hidden states or attention scores always read those of the student's last block.
    if (compares_states(input) || compares_attention(input)) compute_all_tokens(plan);
    if (config.projected_size > 0) add_projections(input, config.projected_size, plan);
  }
  return plan;
}

ModelRequest model_request(const config::Config& input, const model::ModelConfig& config, bool trains, bool on_gpus) {
  ModelRequest request = applied_model(config, objectives::of(input), precision_of(input));
  request.reproducible = input.run.reproducible;
  request.products = input.run.kernels;
  request.attention = input.model.attention;
  if (trains) {
    request.plan = plan_of(input, config, request.objective.head, true);
    request.training = {.schedule = schedule_of(input),
                        .looks_ahead = step_loss_of(input).looks_ahead,
                        .shards = shard_settings(input)};
  }
  model::limit_logits(request.plan, on_gpus);
  return request;
}

data::ShardLimits shard_limits(const config::Config& input, const model::ModelConfig& stated, bool labels) {
  data::ShardLimits limits;
  limits.task = objectives::of(input).task;
  limits.vocabulary_size = vocabulary_is_stated(input) ? stated.vocab_size : 0;
  limits.max_length = stated.max_position_embeddings;
  constexpr std::int64_t any_type = 256;  // shards hold them in a byte; a model of one token type or none reads none
  limits.type_vocabulary = stated.type_vocab_size > 1 ? stated.type_vocab_size : any_type;
  limits.labels = labels;
  return limits;
}

namespace {

/// Throws Error(data) if an evaluation's sets or label columns lack names of the model: their columns are the model's
/// outputs.
void require_all_names(const config::Config& input, std::size_t names, std::size_t outputs) {
  const tasks::Task& task = *objectives::of(input).task;
  const bool columns = task.has_values() && names > 1;
  if ((!task.has_label_sets() && !columns) || input.run.mode == "predict" || names == outputs) return;
  throw Error(ExitCode::data, "the shards have " + core::counted(static_cast<std::int64_t>(names), "label name") +
                                  ", the model has " + core::counted(static_cast<std::int64_t>(outputs), "output") +
                                  ". Prepare the text with all names of the model's id2label in " +
                                  (columns ? "[source] label." : "[task] labels."));
}

/// Whether the model's outputs have the names of the shards' labels or label columns.
bool names_outputs(const config::Config& input, const model::ModelConfig& stated, const data::ShardInfo& shards) {
  const tasks::Task& task = *objectives::of(input).task;
  const std::size_t predicted = input.run.mode == "predict" ? stated.label_names.size() : 0;
  return task.names_outputs(std::max(shards.label_names.size(), predicted));
}

/// Tokens before and behind a text, which programs that generate text read in config.json.
void set_text_ends(const data::ShardInfo& shards, const data::SpecialIds& special, model::ModelConfig& config) {
  if (shards.tokenizer.empty()) return;  // of a plan without data
  const std::int32_t end = data::text_end_from_json(shards.tokenizer, "the shards");
  if (end < 0) return;
  config.bos_token_id = special.cls >= 0 ? special.cls : end;
  config.eos_token_id = end;
}

/// Throws Error(data) for a model that was trained for another task. An adapter brings its own output layer; tasks
/// without labels have output layers of their own names.
void require_trained_for(const config::Config& input, const model::ModelConfig& stated) {
  const bool applies = input.run.mode == "evaluate" || input.run.mode == "predict";
  if (!applies || !input.model.pretrained || input.model.lora.adapter || input.model.head == "keep") return;
  const objectives::Objective& objective = objectives::of(input);
  const std::string has = other_task(objective, stated);
  if (has.empty() || !objective.task->has_labels()) return;
  throw Error(ExitCode::data, "'" + *input.model.pretrained + "' was trained for another task: its config.json has " +
                                  has +
                                  ". Set [task] name to the task that it was trained for, or use another model; "
                                  "[model] head = \"keep\" takes its output layer all the same.");
}

[[noreturn]] void refuse_vocabulary(const config::Config& input, const std::string& token, std::int64_t of_shards,
                                    std::int64_t of_model) {
  throw Error(ExitCode::data, "the shards were made with another vocabulary than that of '" + *input.model.pretrained +
                                  "': their " + token + " token has the id " + std::to_string(of_shards) +
                                  ", the model's " + std::to_string(of_model) +
                                  ". Prepare the data with the model's own vocabulary ([tokenizer] vocabulary).");
}

/// Takes over the shards' mask token, which must be that of a pretrained model.
void set_mask_token(const config::Config& input, const data::ShardInfo& shards, const data::SpecialIds& special,
                    model::ModelConfig& config) {
  if (shards.tokenizer.empty()) return;  // of a plan without data
  if (special.mask < 0) {
    throw Error(ExitCode::data, "the shards' tokenizer has no mask token, which model.family = \"" + config.family +
                                    "\" reads: prepare the data with a vocabulary that has one.");
  }
  if (input.model.pretrained && config.mask_token_id && *config.mask_token_id != special.mask) {
    refuse_vocabulary(input, "mask", special.mask, *config.mask_token_id);
  }
  config.mask_token_id = special.mask;
}

}  // namespace

std::string other_task(const objectives::Objective& objective, const model::ModelConfig& stated) {
  static const std::set<std::string> heads = {"ForSequenceClassification", "ForTokenClassification",
                                              "ForQuestionAnswering", "ForMaskedLM", "LMHeadModel"};
  const std::string wanted = objective.head.class_suffix, problem_type = objective.task->problem_type;
  const std::string needs = std::string(", and the task \"") + objective.task->name + "\" needs ";
  if (heads.contains(stated.head_class) && heads.contains(wanted) && stated.head_class != wanted) {
    return "architectures \"…" + stated.head_class + '"' + needs + "\"…" + wanted + '"';
  }
  if (problem_type.empty() || stated.problem_type.empty() || problem_type == stated.problem_type) return "";
  return "problem_type \"" + stated.problem_type + '"' + needs + '"' + problem_type + '"';
}

model::ModelConfig finalize(const config::Config& input, const model::ModelConfig& stated,
                            const data::ShardInfo& shards, const data::SpecialIds& special) {
  model::ModelConfig config = stated;
  require_trained_for(input, stated);
  take_embeddings(input, shards, config);
  if (!vocabulary_is_stated(input)) config.vocab_size = shards.vocabulary_size;
  if (shards.vocabulary_size > config.vocab_size) {
    throw Error(ExitCode::data, "the shards were made with a vocabulary of " + std::to_string(shards.vocabulary_size) +
                                    " pieces, the model has only " + std::to_string(config.vocab_size) +
                                    ". Prepare the data with the model's own vocabulary ([tokenizer] vocabulary), or "
                                    "leave model.vocab_size out.");
  }
  const tasks::Task& task = *objectives::of(input).task;
  if (task.has_labels()) {
    config.label_names =
        names_outputs(input, stated, shards)
            ? labels_in_use(input, stated.label_names, shards.label_names)
            : model::default_label_names(std::max<std::int64_t>(1, objectives::of(input).head.fixed_outputs));
    require_all_names(input, shards.label_names.size(), config.label_names.size());
    config.problem_type = task.problem_type;
  }
  require_best_metric(input, config.num_labels());
  const bool other_padding = special.pad >= 0 && special.pad != stated.pad_token_id;
  if (input.model.pretrained && other_padding && model::positions_after_padding(stated)) {
    refuse_vocabulary(input, "padding", special.pad, stated.pad_token_id);
  }
  if (special.pad >= 0) config.pad_token_id = special.pad;
  if (!input.model.pretrained && special.mask >= 0) config.mask_token_id = special.mask;
  if (model::reads_mask_tokens(config)) set_mask_token(input, shards, special, config);
  if (!input.model.pretrained && model::is_causal(config)) set_text_ends(shards, special, config);
  if (other_padding) {
    core::ProblemList problems;
    model::check_model(config, problems);
    problems.throw_if_any(ExitCode::data, "the shards' vocabulary does not fit the model:");
  }
  return config;
}

}  // namespace bert_hpc::app
