#include "bert_hpc/config/config.hpp"

#include <algorithm>
#include <bit>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tasks/task.hpp"
#include "schedule_alternatives.hpp"

namespace bert_hpc::config {

namespace {

void visit_run(TomlKeys& toml, Run& run) {
  toml.table("run").key("mode", run.mode, one_of({"train", "evaluate", "predict", "embed", "search"}));
  toml.key("directory", run.directory).required();
  toml.key("seed", run.seed, non_negative()).key("reproducible", run.reproducible);
  toml.key("kernels", run.kernels, one_of({"tuned", "library", "portable"}));
  toml.key("epilogues", run.epilogues, one_of({"on", "off", "all"}));
  toml.key("resume", run.resume).key("max_walltime", run.max_walltime);
  toml.key("peak_gflops", run.peak_gflops, positive());
  toml.key("watchdog_seconds", run.watchdog_seconds, non_negative());
  toml.key("watchdog_limit_seconds", run.watchdog_limit_seconds, non_negative());
  toml.key("machine", run.machine).key("node_ranks", run.node_ranks, between(1, 1 << 20));
  toml.key("previous_phase", run.previous_phase);
  toml.key("phase_steps", run.phase_steps, one_of({"restart", "continue"}));
}

void visit_batch(TomlKeys& toml, Batch& batch) {
  const Range count = between(1, 1 << 30);
  toml.table("batch").key("global", batch.global, count);
  toml.key("micro_tokens", batch.micro_tokens, count);
  toml.key("micro", batch.micro, count);
  toml.key("micro_batches", batch.micro_batches, count);
  toml.key("memory", batch.memory, {.low = 1, .takes_one = true}, batch.memory_word, one_of({"auto"}));
  toml.key("chunks", batch.chunks, between(0, 1 << 20)).key("drop_last", batch.drop_last);
  toml.key("warmup_start", batch.warmup_start, count).key("warmup_increment", batch.warmup_increment, count);
  toml.key("warmup_tokens", batch.warmup_tokens, positive()).key("warmup_steps", batch.warmup_steps, positive());
}

/// The optimizer's own keys at their defaults, if they are another one's; of an unknown one those of the first.
void own_keys(Optimizer& optimizer) {
  if (optimizer.known.empty() || optimizer.owner == optimizer.name) return;
  const auto named = std::find_if(optimizer.known.begin(), optimizer.known.end(),
                                  [&](const core::NamedSettings& one) { return one.name == optimizer.name; });
  optimizer.own = (named != optimizer.known.end() ? *named : optimizer.known.front()).settings;
  optimizer.owner = optimizer.name;
}

void visit_optimizer(TomlKeys& toml, Optimizer& optimizer) {
  Choices names;
  for (const core::NamedSettings& one : optimizer.known) names.names.push_back(one.name);
  toml.table("optimizer").key("name", optimizer.name, names);
  toml.key("learning_rate", optimizer.learning_rate, positive());
  own_keys(optimizer);
  for (core::NumberSetting& own : optimizer.own) {
    toml.key(own.key.c_str(), own.value, range_of(own.limits));
  }
  toml.key("decay", optimizer.decay, one_of({"decoupled", "coupled", "independent"}));
  toml.key("max_gradient_norm", optimizer.max_gradient_norm, non_negative());
  toml.key("max_skipped_steps", optimizer.max_skipped_steps, non_negative());
}

void visit_schedule(TomlKeys& toml, Schedule& schedule) {
  toml.table("schedule");
  toml.key("name", schedule.name, one_of({"linear", "cosine", "polynomial", "constant", "warmup_stable_decay"}));
  toml.key("warmup_steps", schedule.warmup_steps, non_negative());
  toml.key("warmup_ratio", schedule.warmup_ratio, from_to_below(0, 1));
  toml.key("warmup_tokens", schedule.warmup_tokens, non_negative());
  toml.key("epochs", schedule.epochs, positive()).key("steps", schedule.steps, positive());
  toml.key("tokens", schedule.tokens, positive());
  toml.key("power", schedule.power, positive()).key("end_factor", schedule.end_factor, between(0, 1));
  toml.key("decay_steps", schedule.decay_steps, non_negative());
  toml.key("decay_ratio", schedule.decay_ratio, between(0, 1));
  toml.key("decay_tokens", schedule.decay_tokens, non_negative());
  toml.key("decay", schedule.decay, one_of({"linear", "1-sqrt"}));
}

void visit_parallel(TomlKeys& toml, Parallel& parallel) {
  const Range ranks = between(0, 1 << 20);
  toml.table("parallel").key("data", parallel.data, ranks);
  toml.key("pipeline", parallel.pipeline, ranks).key("tensor", parallel.tensor, ranks);
  toml.key("pipeline_schedule", parallel.pipeline_schedule, one_of({"gpipe", "1f1b", "interleaved", "zb_h1"}));
  toml.key("virtual_stages", parallel.virtual_stages, between(1, 1 << 10));
  toml.key("balance", parallel.balance, multiples(0.5, 0.5, 1 << 20), parallel.balance_by,
           one_of({"cost", "measured"}));
  toml.key("zero", parallel.zero, between(0, 2)).key("offload", parallel.offload);
  toml.key("allow_shared_devices", parallel.allow_shared_devices);
}

}  // namespace

Config default_config(std::vector<core::NamedSettings> optimizers, std::vector<core::KnownFamily> families) {
  Config config;
  config.model.known = std::move(families);
  if (!optimizers.empty()) config.optimizer.name = optimizers.front().name;
  config.optimizer.known = std::move(optimizers);
  own_keys(config.optimizer);
  return config;
}

void visit_keys(TomlKeys& toml, Config& config) {
  visit_run(toml, config.run);
  visit_model(toml, config.model);

  toml.table("task").key("name", config.task.name, one_of(tasks::names()));
  if (!config.embeds() && !config.searches()) toml.required();
  for (const tasks::SharedKey& shared : tasks::keys()) {
    const tasks::Key& key = shared.key;
    const Range range = {
        .low = key.low, .high = key.high, .low_open = key.low_open, .high_open = key.high_open, .takes_one = true};
    if (std::holds_alternative<bool>(key.usual)) {
      toml.key(key.name, config.task.switches[key.name]);
    } else if (const auto* list = std::get_if<tasks::WordOrNumbers>(&key.usual)) {
      WordOrNumbers& value = config.task.lists[key.name];
      toml.key(key.name, value.numbers, range, value.word, one_of({list->word}));
    } else if (std::holds_alternative<tasks::Words>(key.usual)) {
      toml.key(key.name, config.task.words[key.name], one_of(shared.words));
    } else {
      toml.key(key.name, config.task.numbers[key.name], range);
    }
  }

  Data& data = config.data;
  toml.table("data").key("train", data.train).key("validation", data.validation).key("test", data.test);
  toml.key("repeat", data.repeat, multiples(1, 1, 1 << 10));
  toml.key("order", data.order, one_of({"random", "file", "by_length"}));
  toml.key("padding", data.padding, one_of({"none", "longest", "max"}));
  toml.key("cache", data.cache, {.low = 1, .takes_one = true}, data.cache_word, one_of({"auto"}));

  visit_batch(toml, config.batch);
  visit_optimizer(toml, config.optimizer);
  visit_schedule(toml, config.schedule);

  visit_parallel(toml, config.parallel);

  toml.table("precision")
      .key("compute", config.precision.compute, one_of({"fp32", "tf32", "bf16", "fp16", "fp8", "int8"}));
  toml.key("loss_scale", config.precision.loss_scale, positive());
  toml.key("weight_gradients", config.precision.weight_gradients, one_of({"auto", "bf16", "fp32"}));

  Evaluation& evaluation = config.evaluation;
  toml.table("evaluation").key("every_steps", evaluation.every_steps, positive());
  toml.key("every_epochs", evaluation.every_epochs, between(1, 1 << 30));
  toml.key("best", evaluation.best).key("patience", evaluation.patience, positive());

  Checkpoint& checkpoint = config.checkpoint;
  toml.table("checkpoint").key("every_steps", checkpoint.every_steps, positive());
  toml.key("every_minutes", checkpoint.every_minutes, positive());
  toml.key("keep", checkpoint.keep, between(1, 1 << 20)).key("at_end", checkpoint.at_end);

  toml.table("log").key("every_steps", config.log.every_steps, positive());
  toml.key("progress", config.log.progress, one_of({"auto", "bar", "lines", "none"}));
  toml.key("tensorboard", config.log.tensorboard).key("trace", config.log.trace);
  toml.key("profile", config.log.profile);

  toml.table("predictions").key("probabilities", config.predictions.probabilities);

  Embed& embed = config.embed;
  toml.table("embed").key("pooling", embed.pooling, one_of({"cls", "mean", "max", "last", "tokens"}));
  toml.key("layer", embed.layer, between(-(1 << 20), 1 << 20)).key("normalize", embed.normalize);
  toml.key("type", embed.type, one_of({"fp32", "fp16", "bf16", "int8"}));
  toml.key("dimensions", embed.dimensions, between(1, 1 << 20));
  toml.key("compression", embed.compression, one_of({"none", "gzip"}));

  Search& search = config.search;
  toml.table("search").key("queries", search.queries).key("corpus", search.corpus);
  toml.key("top_k", search.top_k, between(1, 10000)).key("qrels", search.qrels);
  toml.key("similarity", search.similarity, one_of({"cosine", "dot"}));

  Distill& distill = config.distill;
  toml.table("distill").key("teacher", distill.teacher).key("teacher_scores", distill.teacher_scores);
  toml.key("compute", distill.compute, one_of({"fp32", "tf32", "bf16", "fp16"}));
  toml.key("losses", distill.losses);
  toml.key("initialize", distill.initialize, multiples(1, 0, 1 << 20));
  toml.key("layer_map", distill.layer_map, multiples(1, 0, 1 << 20));
  toml.key("match_embeddings", distill.match_embeddings);
  toml.key("temperature", distill.temperature, positive()).key("alpha", distill.alpha, between(0, 1));

  Debug& debug = config.debug;
  toml.table("debug").key("check_collectives", debug.check_collectives);
  toml.key("collective_timeout_seconds", debug.collective_timeout_seconds, positive());
  toml.key("step_delay_seconds", debug.step_delay_seconds, non_negative());
  toml.key("parameter_hash_every", debug.parameter_hash_every, non_negative());
}

bool Config::distills_by(std::string_view word) const {
  return distills() && std::find(distill.losses.begin(), distill.losses.end(), word) != distill.losses.end();
}

namespace {

/// The defaults of the task's own keys.
void resolve_task(Config& config) {
  const tasks::Task* const task = tasks::find(config.task.name);
  if (task == nullptr) return;
  for (const tasks::Key& key : task->keys) {
    if (key.usual_in_training_only && config.run.mode != "train") continue;
    if (key.optional || std::holds_alternative<tasks::WordOrNumbers>(key.usual)) continue;
    if (config.task.list(key.other).has_value()) continue;
    if (const bool* usual = std::get_if<bool>(&key.usual)) {
      std::optional<bool>& value = config.task.switches[key.name];
      value = value.value_or(*usual);
    } else if (const auto* words = std::get_if<tasks::Words>(&key.usual)) {
      std::optional<std::string>& value = config.task.words[key.name];
      value = value.value_or(words->all.front());
    } else {
      std::optional<double>& value = config.task.numbers[key.name];
      value = value.value_or(std::get<double>(key.usual));
    }
  }
}

}  // namespace

double Task::number(const std::string& key) const {
  const auto found = numbers.find(key);
  if (found != numbers.end() && found->second) return *found->second;
  const tasks::Key* const own = tasks::named(name).find_key(key);
  core::require(own != nullptr, "a task's number is one of its keys");
  return std::get<double>(own->usual);
}

std::optional<double> Task::given_number(const std::string& key) const {
  const auto found = numbers.find(key);
  return found == numbers.end() ? std::nullopt : found->second;
}

std::optional<bool> Task::given_switch(const std::string& key) const {
  const auto found = switches.find(key);
  return found == switches.end() ? std::nullopt : found->second;
}

bool Task::is_on(const std::string& key) const {
  return given_switch(key).value_or(false);
}

WordOrNumbers Task::list(const std::string& key) const {
  const auto found = lists.find(key);
  return found == lists.end() ? WordOrNumbers() : found->second;
}

std::string Task::word(const std::string& key) const {
  const auto found = words.find(key);
  return found == words.end() ? std::string() : found->second.value_or("");
}

bool Task::is(const std::string& key, std::string_view value) const {
  return word(key) == value;
}

constexpr std::int64_t usual_chunks = 8, max_chunks = 1 << 20;
constexpr std::int64_t full_chunk = 32;  // sequences; chunks of twice as many are halved

// Reproducible sums add chunks along a binary tree: a power of two suits every smaller number of replicas. Each chunk
// costs a pass over all gradients, so few are best; but a chunk is also a micro-batch, whose activations must fit into
// memory, so their size is bounded.
std::int64_t automatic_chunks(std::int64_t global_batch) {
  const std::int64_t parts = std::max(std::min(global_batch, usual_chunks), global_batch / full_chunk);
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::clamp(parts, std::int64_t{1}, max_chunks))));
}

std::int64_t least_batch_of(std::int64_t chunks) {
  return chunks <= usual_chunks ? chunks : full_chunk * chunks;
}

void resolve(Config& config) {
  resolve_task(config);
  Schedule& schedule = config.schedule;
  const bool decays = schedule.name == "warmup_stable_decay";
  if (schedule.name == "polynomial" && !schedule.power) schedule.power = 1.0;
  if ((schedule.name == "polynomial" || decays) && !schedule.end_factor) schedule.end_factor = 0.0;
  if (decays && !schedule.decay_steps && !schedule.decay_ratio && !schedule.decay_tokens) schedule.decay_ratio = 0.1;
  if (decays && !schedule.decay) schedule.decay = "linear";
  if (config.run.mode == "train" && !schedule.warmup_steps && !schedule.warmup_ratio && !schedule.warmup_tokens) {
    schedule.warmup_ratio = 0.0;
  }
  if (config.run.reproducible && config.batch.chunks == 0 && config.batch.global >= 1) {
    config.batch.chunks = automatic_chunks(config.batch.global);
  }
  if (config.batch.warmup_start && !config.batch.warmup_increment) {
    config.batch.warmup_increment = config.batch.warmup_start;
  }
  Evaluation& evaluation = config.evaluation;
  const bool evaluates = config.run.mode == "train" && !config.data.validation.empty();
  if (evaluates && !evaluation.every_steps && !evaluation.every_epochs) evaluation.every_epochs = 1;
}

ReadConfig read_config_text(const std::string& text, const std::string& name, const std::vector<std::string>& overrides,
                            const Config& defaults) {
  TomlReader reader(text, name, overrides);
  refuse_input_of("bert_hpc_prep", "source", "run", reader, name);
  for (const std::vector<std::string>& alternatives : schedule_alternatives()) {
    for (const std::string& key : alternatives) {
      std::vector<std::string> others = alternatives;
      std::erase(others, key);
      reader.override_excludes(key, others);
    }
  }
  reader.override_excludes("evaluation.every_steps", {"evaluation.every_epochs"});
  reader.override_excludes("evaluation.every_epochs", {"evaluation.every_steps"});
  reader.override_excludes("batch.micro_tokens", {"batch.micro", "batch.micro_batches"});
  reader.override_excludes("batch.micro", {"batch.micro_tokens", "batch.micro_batches"});
  reader.override_excludes("batch.micro_batches", {"batch.micro_tokens", "batch.micro"});
  reader.override_excludes("batch.warmup_tokens", {"batch.warmup_steps"});
  reader.override_excludes("batch.warmup_steps", {"batch.warmup_tokens"});
  reader.override_excludes("model.pretrained",
                           {"model.vocab_size", "model.hidden_size", "model.num_hidden_layers",
                            "model.num_attention_heads", "model.intermediate_size", "model.embedding_size",
                            "model.max_position_embeddings", "model.type_vocab_size", "model.family"});
  Config config = defaults;
  visit_keys(reader, config);
  config.precision.is_given = reader.given("precision.compute");
  resolve(config);
  for (const ConfigProblem& problem : validate(config, 0)) {
    reader.problem(problem.key, problem.text, problem.alternatives);
  }
  return {std::move(config), reader.problems()};
}

std::string to_toml(const Config& config) {
  Config copy = config;
  TomlWriter writer;
  visit_keys(writer, copy);
  return writer.text();
}

}  // namespace bert_hpc::config
