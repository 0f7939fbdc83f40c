// Rules that involve several keys, one function per table. visit_keys() holds the limits of single keys; app's
// grid_layout checks the grid of ranks against the model.
#include <algorithm>
#include <bit>

#include "batch_rules.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/config/walltime.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"
#include "schedule_rules.hpp"
#include "task_rules.hpp"

namespace bert_hpc::config {

namespace {

bool is_power_of_two(std::int64_t number) {
  return number > 0 && std::has_single_bit(static_cast<std::uint64_t>(number));
}

class Rules {
 public:
  Rules(const Config& config, int replicas) : config_(config), replicas_(replicas) {}

  std::vector<ConfigProblem> check() {
    check_run();
    check_search();
    if (config_.searches()) return std::move(problems_);
    check_model();
    for (ConfigProblem& problem : task_problems(config_)) problems_.push_back(std::move(problem));
    check_predictions();
    check_embed();
    check_distill();
    check_data();
    for (ConfigProblem& problem : batch_problems(config_, replicas_)) problems_.push_back(std::move(problem));
    for (ConfigProblem& problem : schedule_problems(config_)) problems_.push_back(std::move(problem));
    check_parallel();
    check_precision();
    check_evaluation();
    return std::move(problems_);
  }

 private:
  bool trains() const { return config_.run.mode == "train"; }

  /// Adds the problem unless the rule holds.
  void rule(bool holds, const std::string& key, const std::string& text, std::vector<std::string> alternatives = {}) {
    if (!holds) problems_.push_back({key, text, std::move(alternatives)});
  }

  void check_run() {
    rule(!config_.run.directory.empty(), "run.directory",
         "[run] directory is empty: name the directory for the results.");
    rule(!config_.run.resume.empty(), "run.resume",
         "[run] resume is empty: it is \"auto\", \"never\" or the folder of a checkpoint.");
    rule(config_.run.phase_steps == "restart" || config_.run.previous_phase, "run.phase_steps",
         "[run] phase_steps needs the run to continue: set previous_phase, or remove it.");
    const std::string& walltime = config_.run.max_walltime ? *config_.run.max_walltime : "1";
    rule(walltime_seconds(walltime).has_value(), "run.max_walltime",
         "[run] max_walltime = \"" + core::printable(walltime, 40) +
             "\" is not a time: write it as for Slurm's --time, for instance \"90\" (minutes), \"12:00:00\" or "
             "\"2-12:00:00\".");
    rule(!config_.run.node_ranks || config_.run.machine, "run.node_ranks",
         "[run] node_ranks is for estimates of a machine: set machine to its description, or remove node_ranks.");
    const double named = config_.run.watchdog_seconds, limit = config_.run.watchdog_limit_seconds;
    rule(limit == 0 || (named > 0 && limit > named), "run.watchdog_limit_seconds",
         "[run] watchdog_limit_seconds must be longer than watchdog_seconds (a silent rank is reported before the run "
         "ends), or 0 for a run that waits without limit.");
  }

  void check_model() {
    const Model& m = config_.model;
    const bool pretrained = m.pretrained.has_value();
    rule(!pretrained || !m.pretrained->empty(), "model.pretrained",
         "[model] pretrained is empty: name a Hugging Face folder.");
    rule(pretrained || trains(), "model.pretrained",
         "[model] pretrained is missing: mode \"" + config_.run.mode + "\" needs the folder of a trained model.");
    if (!pretrained && trains()) {
      const auto needed = [&](const char* name, bool given, const char* example) {
        rule(given, std::string("model.") + name,
             std::string("[model] ") + name + " is missing: a model from scratch needs it (" + example +
                 "). To start from a trained model, name its Hugging Face folder in pretrained.",
             {"model.pretrained"});
      };
      needed("hidden_size", m.hidden_size.has_value(), "128 in BERT-tiny, 768 in BERT-base");
      needed("num_hidden_layers", m.num_hidden_layers.has_value(), "2 in BERT-tiny, 12 in BERT-base");
      if (m.has_attention()) {
        needed("num_attention_heads", m.num_attention_heads.has_value(), "2 in BERT-tiny, 12 in BERT-base");
      }
    }
    rule(pretrained || m.head == "auto", "model.head",
         "[model] head belongs to pretrained: remove it, or name a Hugging Face folder in pretrained.");
    rule(trains() || m.head != "new", "model.head",
         "[model] head = \"new\" is for trainings; mode \"" + config_.run.mode + "\" uses the model's own: remove it.");
    const tasks::Task* const task = tasks::find(config_.task.name);
    rule(
        m.head == "auto" || task == nullptr || task->has_labels(), "model.head",
        "[model] head does not belong to the task \"" + config_.task.name + "\", whose head has no labels: remove it.");
    for (const auto& [key, size] : attention_sizes(m)) {
      rule(m.has_attention() || !size->has_value(), std::string("model.") + key,
           std::string("[model] ") + key + " is not a setting of family = \"" + m.family +
               "\", which has no attention: remove it.");
    }
    check_lora(m);
    if (m.hidden_size && m.num_attention_heads) {
      rule(*m.hidden_size % *m.num_attention_heads == 0, "model.num_attention_heads",
           "[model] hidden_size = " + std::to_string(*m.hidden_size) + " is not a multiple of num_attention_heads = " +
               std::to_string(*m.num_attention_heads) + ": each head takes an equal share of it.");
    }
  }

  void check_lora(const Model& m) {
    const Lora& lora = m.lora;
    rule(!lora.adapter || !lora.adapter->empty(), "model.lora.adapter",
         "[model.lora] adapter is empty: name the folder of an adapter.");
    rule(!lora.adapter || m.pretrained, "model.pretrained",
         "[model] pretrained is missing: an adapter needs the folder of the model beside which it was trained.");
    rule(lora.targets.end() == std::find(lora.targets.begin(), lora.targets.end(), ""), "model.lora.targets",
         "[model.lora] targets has an empty name: remove it.");
    const tasks::Task* const task = tasks::find(config_.task.name);
    rule(!lora.train_head.value_or(false) || task == nullptr || !task->predicts_tokens(), "model.lora.train_head",
         "[model.lora] train_head = true is not possible with the task \"" + config_.task.name +
             "\", which trains the adapters alone: remove it.");
    if (trains()) {
      rule(m.trainable == "lora" || !lora.is_given(), "model.lora",
           "[model.lora] belongs to trainable = \"lora\" in [model]: set that, or remove the table.");
    } else {
      const Lora rest = {lora.rank, lora.alpha,      lora.dropout, lora.rslora,
                         lora.dora, lora.train_head, lora.targets, {}};
      rule(!rest.is_given(), "model.lora",
           "[model.lora] has only the key adapter with mode \"" + config_.run.mode + "\": remove the others.");
    }
  }

  void check_predictions() {
    const tasks::Task* const task = tasks::find(config_.task.name);
    rule(!config_.predictions.probabilities || task == nullptr || task->has_words(), "predictions.probabilities",
         "[predictions] probabilities = true is for " +
             tasks::names_where([](const tasks::Task& each) { return each.has_words(); }) + ", and the task is " +
             config_.task.name +
             ": remove it. Predictions of classification and multi_label always have probabilities.");
  }

  void check_embed() {
    const Embed& e = config_.embed;
    if (!config_.embeds()) {
      rule(e == Embed(), "embed", "[embed] belongs to [run] mode = \"embed\": set that, or remove the table.");
      return;
    }
    rule(config_.task.name.empty(), "task.name",
         "[task] is not for mode \"embed\", which takes shards of any task: remove the table.");
  }

  void check_search() {
    const Search& s = config_.search;
    if (!config_.searches()) {
      rule(s == Search(), "search", "[search] belongs to [run] mode = \"search\": set that, or remove the table.");
      return;
    }
    rule(!s.queries.empty(), "search.queries",
         "[search] queries is missing: list the embeddings of the queries, which mode \"embed\" writes, as in "
         "[\"embedded/embeddings/test-*.h5\"].");
    rule(s.qrels != "", "search.qrels", "[search] qrels is empty: name a file of judgements, or remove it.");
    for (const auto& [key, files] : {std::pair("queries", &s.queries), std::pair("corpus", &s.corpus)}) {
      rule(std::find(files->begin(), files->end(), "") == files->end(), std::string("search.") + key,
           std::string("[search] ") + key + " has an empty file name: remove it.");
    }
    const std::string reads = " is not for mode \"search\", which reads embeddings alone: remove the table.";
    const Data& data = config_.data;
    rule(!config_.model.pretrained && !config_.model.hidden_size, "model.pretrained", "[model]" + reads);
    rule(config_.task.name.empty(), "task.name", "[task]" + reads);
    rule(data.train.empty() && data.validation.empty() && data.test.empty(), "data.test", "[data]" + reads);
    rule(config_.embed == Embed(), "embed", "[embed]" + reads);
    const std::string& compute = config_.precision.compute;
    rule(compute != "fp8" && compute != "int8", "precision.compute",
         "[precision] compute = \"" + compute + "\" is for models: a search compares in fp32, tf32, bf16 or fp16.");
    rule(config_.distill == Distill(), "distill", "[distill]" + reads);
  }

  void check_distill() {
    const Distill& d = config_.distill;
    if (d == Distill()) return;
    if (!trains()) {
      rule(false, "distill", "[distill] belongs to [run] mode = \"train\": remove the table.");
      return;
    }
    rule(config_.distills(), "distill.teacher",
         "[distill] teacher is missing: name the folder of the teacher, a trained model of this task, or "
         "teacher_scores, a file of its predictions.");
    rule(!d.teacher || !d.teacher_scores, "distill.teacher_scores",
         "[distill] teacher and teacher_scores exclude each other: remove one of them.");
    rule(d.teacher_scores != "", "distill.teacher_scores",
         "[distill] teacher_scores is empty: name a file predictions.h5.");
    rule(d.teacher || !d.teacher_scores || (d.initialize.empty() && !d.compute), "distill.initialize",
         "[distill] initialize and compute need the teacher itself, and teacher_scores holds its outputs only: "
         "remove them, or name its folder as teacher.");
    rule(d.teacher != "", "distill.teacher", "[distill] teacher is empty: name the folder of the teacher.");
    rule(d.initialize.empty() || !config_.model.pretrained, "distill.initialize",
         "[distill] initialize gives the student's blocks their first values, and so does [model] pretrained: remove "
         "one of them.");
    const auto is_repeated = [&](const std::string& word) {
      return std::count(d.losses.begin(), d.losses.end(), word) > 1;
    };
    const auto repeated = std::find_if(d.losses.begin(), d.losses.end(), is_repeated);
    rule(repeated == d.losses.end(), "distill.losses",
         "[distill] losses names \"" + (repeated != d.losses.end() ? core::printable(*repeated, 60) : std::string()) +
             "\" more than once, and each loss counts once: name it once.");
    const bool compares_states = !config_.distills() || config_.distills_by(hidden_squares_word);
    rule(d.layer_map.empty() || compares_states || config_.distills_by(attention_squares_word), "distill.layer_map",
         "[distill] layer_map is read by losses = [\"hidden_mse\", \"attention_mse\"]: add one of them, or remove "
         "layer_map.");
    rule(d.match_embeddings || compares_states, "distill.match_embeddings",
         "[distill] match_embeddings is read by losses = [\"hidden_mse\"] alone: add it, or remove match_embeddings.");
    rule(config_.task.word(tasks::loss_key) != tasks::concordance_loss, "distill",
         "[distill] does not go with [task] loss = \"concordance\", a loss over a whole step: remove one of them.");
  }

  void check_data() {
    const Data& data = config_.data;
    if (trains()) {
      rule(!data.train.empty(), "data.train",
           "[data] train is missing: list the shards to train on, as in [\"shards/train-*.h5\"].");
    } else if (config_.run.mode == "evaluate") {
      rule(!data.validation.empty() || !data.test.empty(), "data.test",
           "[data] test is missing: mode \"evaluate\" needs test or validation shards, as in [\"shards/test-*.h5\"].",
           {"data.validation"});
    } else if (config_.embeds()) {
      rule(!data.train.empty() || !data.validation.empty() || !data.test.empty(), "data.test",
           "[data] train, validation and test are missing: mode \"embed\" needs shards in one of them, as in "
           "[\"shards/test-*.h5\"].",
           {"data.train", "data.validation"});
    } else {
      rule(!data.test.empty(), "data.test",
           "[data] test is missing: mode \"predict\" needs the shards to predict, as in [\"shards/test-*.h5\"].");
    }
    const auto no_empty_name = [&](const char* name, const std::vector<std::string>& files) {
      rule(std::find(files.begin(), files.end(), "") == files.end(), std::string("data.") + name,
           std::string("[data] ") + name + " has an empty file name: remove it.");
    };
    rule(data.repeat.empty() || trains(), "data.repeat",
         "[data] repeat is of a training's epochs, and mode \"" + config_.run.mode +
             "\" reads each shard once: remove it.");
    rule(data.repeat.empty() || !trains() || data.repeat.size() == data.train.size(), "data.repeat",
         "[data] repeat has " + core::counted(std::ssize(data.repeat), "number") + ", but train has " +
             core::counted(std::ssize(data.train), "entry", "entries") + ": give one for each.");
    no_empty_name("train", data.train);
    no_empty_name("validation", data.validation);
    no_empty_name("test", data.test);
  }

  void check_parallel() {
    const Parallel& p = config_.parallel;
    const bool interleaved = p.pipeline_schedule == "interleaved";
    rule(!interleaved || p.virtual_stages > 1, "parallel.virtual_stages",
         "[parallel] pipeline_schedule = \"interleaved\" needs several parts of the model on each stage: set "
         "virtual_stages = 2, or use \"1f1b\".");
    rule(interleaved || p.virtual_stages == 1, "parallel.virtual_stages",
         "[parallel] virtual_stages = " + std::to_string(p.virtual_stages) +
             " belongs to pipeline_schedule = \"interleaved\": set that, or remove it.");
    rule(!interleaved || p.pipeline != 1, "parallel.pipeline",
         "[parallel] pipeline_schedule = \"interleaved\" needs a pipeline: set pipeline = 2 or more, or use \"1f1b\".");
    const std::int64_t parts = p.pipeline * p.virtual_stages;
    rule(p.balance.empty() || parts == 0 || static_cast<std::int64_t>(p.balance.size()) == parts, "parallel.balance",
         "[parallel] balance has " + core::counted(static_cast<std::int64_t>(p.balance.size()), "number") + ", but " +
             (p.virtual_stages == 1 ? "pipeline = " + std::to_string(p.pipeline) + " needs "
                                    : "pipeline = " + std::to_string(p.pipeline) +
                                          " times virtual_stages = " + std::to_string(p.virtual_stages) + " needs ") +
             std::to_string(parts) + ": how many blocks each part of the model holds, from the first to the last.");
    rule(!p.offload || p.zero > 0, "parallel.offload",
         "[parallel] offload moves what zero shards: set zero = 1 or 2, or offload = false.");
    if (replicas_ > 0) check_replicas();
  }

  void check_precision() {
    const Precision& p = config_.precision;
    rule(!p.loss_scale || p.compute == "fp16", "precision.loss_scale",
         "[precision] loss_scale belongs to compute = \"fp16\": remove it.");
    rule(p.compute != "int8" || !trains(), "precision.compute",
         "[precision] compute = \"int8\" is for models that are applied, in the modes \"evaluate\", \"predict\" and "
         "\"embed\": train in \"fp32\" or \"bf16\".");
    check_weight_gradients(p);
    const std::optional<std::int64_t>& hidden = config_.model.hidden_size;
    rule(p.compute == "fp32" || p.compute == "int8" || !hidden || *hidden % 2 == 0, "model.hidden_size",
         "[model] hidden_size must be even with compute = \"" + p.compute + "\".");
  }

  void check_weight_gradients(const Precision& p) {
    if (p.weight_gradients != "bf16") return;
    const std::string key = "precision.weight_gradients", begin = "[precision] weight_gradients = \"bf16\" ";
    rule(p.compute == "bf16" || p.compute == "fp8", key,
         begin + "needs compute = \"bf16\" or \"fp8\": set that, or remove it.");
    rule(!config_.run.reproducible, key,
         begin + "does not go with [run] reproducible, which adds gradients in fp32: remove one of them.");
    rule(!config_.parallel.offload, key,
         begin + "does not go with [parallel] offload, which updates from gradients in fp32: remove one of them.");
  }

  void check_replicas() {
    rule(config_.batch.global >= replicas_, "batch.global",
         "[batch] global = " + std::to_string(config_.batch.global) + " is less than the " +
             core::counted(replicas_, "replica") +
             " of the model (ranks / pipeline / tensor): each needs at least one sequence of an update.");
    if (trains() && config_.run.reproducible && config_.batch.global >= replicas_) check_reproducible_replicas();
  }

  /// One binary tree over chunks, whose upper part is over replicas.
  void check_reproducible_replicas() {
    const std::int64_t global = config_.batch.global, chunks = config_.batch.chunks;
    const std::string replicas = core::counted(replicas_, "replica");
    rule(
        is_power_of_two(replicas_), "run.reproducible",
        "[run] reproducible needs a power of two of replicas of the model (ranks / pipeline / tensor), but there are " +
            replicas + ": change the number of ranks or [parallel] data.");
    if (!is_power_of_two(replicas_) || chunks >= replicas_) return;
    const std::string count = std::to_string(replicas_);
    rule(false, "batch.chunks",
         "[run] reproducible needs a chunk for each of the " + replicas +
             ", but [batch] global = " + std::to_string(global) + " is cut into " + core::counted(chunks, "chunk") +
             ": set [batch] chunks = " + count + " (another order of sums, so other bits), " +
             (chunks == automatic_chunks(global)
                  ? "or global to at least " + std::to_string(least_batch_of(replicas_)) + ", or "
                  : std::string("or ")) +
             "use at most " + core::counted(chunks, "replica") + '.');
  }

  void check_evaluation() {
    const Evaluation& e = config_.evaluation;
    rule(!e.every_steps || !e.every_epochs, "evaluation.every_epochs",
         "[evaluation] every_steps and every_epochs are both given: keep one of them.");
    if (trains() && config_.data.validation.empty()) {
      const char* asked = e.best ? "best" : e.patience ? "patience" : e.every_steps ? "every_steps" : "every_epochs";
      rule(!e.best && !e.patience && !e.every_steps && !e.every_epochs, std::string("evaluation.") + asked,
           std::string("[evaluation] ") + asked + " needs validation data: list shards in [data] validation.");
    }
    rule(!e.patience || e.best, "evaluation.patience",
         "[evaluation] patience needs best, the metric to compare models by, for example best = \"loss\".");
    const std::vector<std::string> metrics = metrics::goals_of(tasks::named(config_.task.name).metrics);
    if (!e.best || config_.task.name.empty() || std::find(metrics.begin(), metrics.end(), *e.best) != metrics.end())
      return;
    // Transformers calls it "eval_accuracy".
    const std::string name = e.best->starts_with("eval_") ? e.best->substr(5) : *e.best;
    const std::string nearest = core::nearest_name(name, metrics);
    rule(false, "evaluation.best",
         "[evaluation] best = \"" + core::printable(*e.best, 80) + "\" is not a metric of the task \"" +
             config_.task.name + "\", which has " + core::listed(metrics, "and") +
             (nearest.empty() ? "." : "; did you mean \"" + nearest + "\"?"));
  }

  const Config& config_;
  int replicas_;
  std::vector<ConfigProblem> problems_;
};

}  // namespace

std::vector<ConfigProblem> validate(const Config& config, int replicas) {
  return Rules(config, replicas).check();
}

void require_valid(const Config& config, int replicas) {
  core::ProblemList list;
  for (const ConfigProblem& problem : validate(config, replicas)) list.add(problem.text);
  throw_if_any(list);
}

}  // namespace bert_hpc::config
