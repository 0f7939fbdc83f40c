// Mode "train". Set-up first: data, model, all memory; then the steps with evaluations in between; then what remains.
#include <algorithm>
#include <optional>

#include "bert_hpc/app/application.hpp"
#include "bert_hpc/app/checkpoint/resume.hpp"
#include "bert_hpc/app/engine/data_sets.hpp"
#include "bert_hpc/app/engine/label_unit.hpp"
#include "bert_hpc/app/engine/model_from_config.hpp"
#include "bert_hpc/app/engine/model_loading.hpp"
#include "bert_hpc/app/engine/planned_data.hpp"
#include "bert_hpc/app/engine/precision.hpp"
#include "bert_hpc/app/engine/training_settings.hpp"
#include "bert_hpc/app/plan/micro_batch_size.hpp"
#include "bert_hpc/app/plan/simulation.hpp"
#include "bert_hpc/app/report/banner.hpp"
#include "bert_hpc/app/report/describe.hpp"
#include "bert_hpc/app/report/results.hpp"
#include "bert_hpc/app/report/stage_table.hpp"
#include "bert_hpc/app/run/collective.hpp"
#include "bert_hpc/app/run/earlier_start.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/metric.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "training.hpp"
#include "training_loop.hpp"

namespace bert_hpc::app {

train::ShardSettings shards_of(const Training& training, const Assembly& assembly, const RunContext& context) {
  train::ShardSettings shards = shard_settings(context.input, training.batches.plan.chunks);
  shards.segments = assembly.segments();
  shards.units = assembly.units();
  if (assembly.ties_gradients()) shards.tied = model::word_embeddings_name(assembly.config);
  shards.first_unit_held = assembly.objective.head.ties_word_embeddings && assembly.parts.size() == 1;
  return shards;
}

MemoryPlan memory_of(const Training& training, const Assembly& assembly, const RunContext& context) {
  const train::ShardSettings shards = shards_of(training, assembly, context);
  const train::ShardPlan plan = train::plan_shards(assembly.parameters, shards, context.grid.data);
  MemoryPlan memory = plan.memory();
  for (auto& item : model_memory(assembly, true)) memory.push_back(std::move(item));
  if (training.message_bytes > 0) memory.emplace_back("messages", training.message_bytes);
  memory.emplace_back("prepared batches", training.loader->memory_bytes());
  memory.emplace_back("snapshot for checkpoints", snapshot_bytes(plan));
  add_surroundings(training.sets, assembly, memory);
  return memory;
}

namespace {

/// Of an estimate: in what gradients are stored.
core::ParameterStore::Memory gradient_memory(const Training& training, const RunContext& context) {
  return {.product_gradients = weight_gradient_type(context.input, context.grid, training.micro_batches())};
}

void set_up(Training& training, const RunContext& context) {
  const config::Config& input = context.input;
  comm::Communicator& world = context.world;
  model::ModelConfig stated, config;
  collectively(world, [&] { stated = stated_model(input); });
  open_or_plan_data(training.sets, context, stated);
  const data::ShardReader& train = *training.sets.train;
  if (!context.invocation.validate) training.groups.emplace(comm::make_process_groups(world, context.grid));
  const bool estimates = context.invocation.validate;
  const comm::GridPlace place = comm::place(context.grid, std::min(world.rank(), context.ranks() - 1));
  collectively(world, [&] { config = complete_model(input, stated, train.info(), train.special_ids()); });
  training.usual_micro_tokens = usual_micro_tokens(context, config, train);
  training.pipeline = set_up_pipeline(context, config, objectives::named(input.task.name).head, *training.sets.train,
                                      training.groups ? &*training.groups : nullptr, training.usual_micro_tokens);
  collectively(world, [&] {
    training.batches = training_batches(input, config, train.info().max_length, place.data, context.grid,
                                        training.pipeline.micro_batches, training.usual_micro_tokens);
    training.batches.label_scale = training_label_scale(input, train);
    training.loader.emplace(*training.sets.train, training.batches);
    training.assembly.emplace(input, config, Assembly::Purpose::estimate, context.grid, place,
                              training.pipeline.balance, gradient_memory(training, context));
  });
  // Communicates, so every rank must have come here: what is wrong with the input the estimate has found.
  if (!estimates) {
    core::ParameterStore::Memory memory =
        train::shard_memory(shard_settings(input, training.batches.plan.chunks), *training.groups->data);
    memory.product_gradients = gradient_memory(training, context).product_gradients;
    training.assembly.emplace(input, config, Assembly::Purpose::training, context.grid, place,
                              training.pipeline.balance, memory);
  }
  training.assembly->label_scale = training.batches.label_scale;
  collectively(world, [&] {
    training.bounds = model_bounds(*training.loader);
    const auto add = [&](std::optional<Evaluator>& evaluator, const std::unique_ptr<data::ShardReader>& reader) {
      if (!reader) return;
      const std::int64_t tokens =
          evaluation_micro_tokens(input, reader->info().max_length, training.usual_micro_tokens);
      evaluator.emplace(*training.assembly, *reader, data::evaluation_options(training.batches, tokens), true);
      training.evaluation_bounds = larger(training.evaluation_bounds, evaluator->bounds());
    };
    add(training.validation, training.sets.validation);
    add(training.test, training.sets.test);
    training.assembly->allocate(training.bounds, training.micro_batches(), training.evaluation_bounds);
    if (estimates) check_pretrained(*training.assembly, input, true);
  });
  collectively(world, [&] {
    if (world.rank() != 0 || train.planned()) return;
    const std::string tokenizer = tokenizer_folder(input, train.info(), config.vocab_size);
    if (!tokenizer.empty()) {
      model::check_tokenizer_files(tokenizer);  // now rather than when the trained model is to be written
      return;
    }
    context.log.warning("the shards' vocabulary is neither beside them nor in model.pretrained; " +
                        input.run.directory + "/model will have no tokenizer");
  });
  if (estimates) return;
  // Communicates too.
  core::ParameterStore& parameters = training.assembly->parameters;
  const train::ShardSettings shards = shards_of(training, *training.assembly, context);
  const bool tied = training.assembly->objective.head.ties_word_embeddings;
  const train::NormScope scope = train::norm_scope(parameters.slices(), training.assembly->all_parameters(), world,
                                                   training.assembly->place.tensor,
                                                   tied ? model::word_embeddings_name(training.assembly->config) : "");
  comm::Communicator& replicas = *training.groups->data;
  training.sums = train::make_data_parallel(replicas, parameters, shards, scope);
  if (shards.reproducible) return;
  std::int64_t largest = 0;
  for (const auto& bucket : training.sums->plan().buckets) largest = std::max(largest, bucket.size);
  training.message_bytes = replicas.reserve_sums(largest / replicas.size());
}

/// What a checkpoint takes on disk, bytes: at the end, when its metric history is longest.
std::int64_t last_checkpoint_bytes(const Training& training, const RunContext& context) {
  const Assembly& assembly = *training.assembly;
  const std::int64_t steps = training.loader->total_steps();
  const std::vector<ops::StateTensor> states = optimizer_states(context.input);
  io::JournalPlan plan;
  plan.text = static_cast<std::int64_t>(context.resolved.text.size());
  for (const std::string& name : assembly.config.label_names) plan.text += static_cast<std::int64_t>(name.size()) + 1;
  plan.evaluations = steps / evaluation_steps(context.input, training.loader->steps_per_epoch()) + 1;
  plan.rows = steps / context.input.log.every_steps + plan.evaluations;
  plan.loss_scales = context.input.precision.compute == "fp16";
  plan.classes = metrics::matrix_classes(assembly.objective.task->metrics, {.outputs = assembly.config.num_labels()});
  if (training.sets.validation) plan.samples = training.sets.validation->samples();
  if (!training.sets.validation) plan.evaluations = 0;
  return checkpoint_bytes(assembly, states, context.ranks()) + io::journal_bytes(plan);
}

std::string checkpoints_text(const Training& training, const RunContext& context) {
  const config::Checkpoint& settings = context.input.checkpoint;
  std::string text;
  if (settings.every_steps) text = "every " + core::counted(*settings.every_steps, "step");
  if (settings.every_minutes) {
    if (!text.empty()) text += " and ";
    text += "every " + core::format_number(*settings.every_minutes) + " minutes";
  }
  if (text.empty()) text = "every 10 minutes, in short runs more often";
  const std::int64_t bytes = last_checkpoint_bytes(training, context);
  return text + ", " + core::format_bytes(bytes) + " each, at most " + core::format_bytes(bytes * (settings.keep + 2)) +
         " in " + checkpoint_folder(context.input).path();
}

void describe(const Training& training, const RunContext& context) {
  const auto facts_at = [&](const comm::GridPlace& place) {
    const Assembly& own = *training.assembly;
    if (place == own.place) return stage_facts(own, memory_of(training, own, context));
    Assembly other(context.input, own.config, Assembly::Purpose::estimate, context.grid, place,
                   training.pipeline.balance, gradient_memory(training, context));
    other.allocate(training.bounds, training.micro_batches(), training.evaluation_bounds);
    return stage_facts(other, memory_of(training, other, context));
  };
  const std::int64_t steps = training.loader->total_steps(), per_epoch = training.loader->steps_per_epoch();
  const std::vector<StageFacts> stages = stage_table(context, facts_at);
  auto lines = stage_lines(context.grid, stages);
  lines.insert(lines.end(), training.pipeline.lines.begin(), training.pipeline.lines.end());
  if (context.invocation.planned_tokens > 0) lines.emplace_back("plan", planned_data_text(training.sets));
  lines.emplace_back("steps", core::with_commas(steps) + " of " +
                                  core::counted(context.input.batch.global, "sequence") + ", " +
                                  core::with_commas(per_epoch) + " per epoch, micro-batches of at most " +
                                  core::counted(training.bounds.tokens, "token") +
                                  (context.input.run.reproducible ? "; reproducible" : ""));
  const std::string loss = regression_loss_text(context.input, training.batches.label_scale);
  if (!loss.empty()) lines.emplace_back("loss", loss);
  const train::ShardSettings shards = shards_of(training, *training.assembly, context);
  lines.emplace_back("checkpoints", checkpoints_text(training, context));
  lines.emplace_back("update", train::plan_shards(training.assembly->parameters, shards, context.grid.data).describe());
  describe_run(context, *training.assembly, training.sets, memory_of(training, *training.assembly, context),
               most_bytes(stages), lines);
  for (const std::string& warning : training_warnings(context.input, steps, training.sets.train->samples())) {
    context.log.warning(warning);
  }
  const std::string equal = equal_labels_warning(context.input, *training.sets.train);
  if (!equal.empty()) context.log.warning(equal);
}

/// What it takes to go on from here: nothing of a later step is left that a resuming run could take for its own. Only
/// then is it noted: a start that is killed before begins where this one did.
void tell_and_tidy(const Resume& resume, const RunContext& context) {
  context.log.info("resuming from step " + core::with_commas(resume.manifest.step) + " (" + resume.place() + ')');
  for (const KeyChange& change : resume.changes) context.log.info("changed since that step: " + describe(change));
  for (const std::string& warning : resume.warnings) context.log.warning("changed since that step: " + warning);
  if (resume.best_elsewhere) {
    context.log.info("the best model so far, of step " + core::with_commas(*resume.best_elsewhere) +
                     ", belongs to the run that made it: this run selects its own best model from here on");
  }
  if (!resume.same_run) return;
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    const io::CheckpointFolder& folder = resume.folder;
    folder.set_pointers(resume.manifest.step, resume.state.best.checkpoint());
    for (const std::int64_t step : folder.steps()) {
      if (step <= resume.manifest.step) continue;
      context.log.info("the later checkpoint of step " + core::with_commas(step) + " is renamed to " +
                       folder.set_aside(step));
    }
    // A run never reads them: they are for a person to look into, and would fill the disk of a run that is often
    // damaged.
    constexpr std::size_t kept = 2;
    for (const std::string& name : folder.prune_set_aside(kept)) {
      context.log.info(name + " is removed: only the " + std::to_string(kept) + " newest renamed checkpoints are kept");
    }
    note_start(context.input.run.directory, start_of(context.input));
  });
}

SimulatedRun simulated_run(const Training& training, const RunContext& context) {
  const std::int64_t steps = training.loader->total_steps();
  const std::int64_t interval = evaluation_steps(context.input, training.loader->steps_per_epoch());
  return {.reader = *training.sets.train,
          .batches = training.batches,
          .assembly = *training.assembly,
          .validation = training.sets.validation.get(),
          .test = training.sets.test.get(),
          .steps = steps,
          .evaluations = training.sets.validation ? (steps + interval - 1) / interval : 0,
          .checkpoint_bytes = last_checkpoint_bytes(training, context),
          .usual_micro_tokens = training.usual_micro_tokens};
}

/// For --validate: where the run would begin. The state of its own directory is a note; a checkpoint that the input
/// names must serve.
void tell_beginning(Training& training, const RunContext& context) {
  std::string note = directory_note(context);
  const bool own = context.input.run.resume == "auto";
  if (training.sets.train->planned()) {  // of other data than a checkpoint's
    note.clear();
  } else if (note.empty() || !own) {
    try {
      const auto resume = choose_checkpoint(context, *training.assembly, training.sets, training.loader->total_steps());
      if (resume) context.log.info("it would resume from step " + core::with_commas(resume->manifest.step));
    } catch (const AgreedError& error) {
      if (!own) throw;
      note = error.what();
    }
  }
  note_directory(context, note);
}

/// Before anything changes in the run's directory.
void report_earlier_start(const RunContext& context, const std::optional<Resume>& resume) {
  collectively(context.world, [&] {
    const bool other = resume && !resume->same_run;
    if (context.world.rank() != 0 || other || beginning_of(context).overwrite) return;
    const std::string note =
        earlier_start_note(context.input.run.directory, resume ? resume->manifest.step : std::int64_t{0});
    if (!note.empty()) context.log.warning(note);
  });
}

}  // namespace

void run_training(const RunContext& context) {
  Training training;
  set_up(training, context);
  describe(training, context);
  report_simulation(context, simulated_run(training, context));
  if (context.invocation.validate) {
    tell_beginning(training, context);
    context.log.info("valid: nothing was computed");
    return;
  }
  const std::unique_ptr<io::RunLock> lock = lock_run_directory(context);
  const std::optional<Resume> resume =
      choose_checkpoint(context, *training.assembly, training.sets, training.loader->total_steps());
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    checkpoint_folder(context.input)
        .require_space(checkpoint_bytes(*training.assembly, optimizer_states(context.input), context.world.size()));
  });
  core::Timers timers(context.activity);
  training.assembly->connect(*training.groups, timers);
  if (!resume) {
    const std::string told = load_values(*training.assembly, context.input);
    if (!told.empty()) context.log.info(told);
  }
  leave_if_asked(context);
  report_earlier_start(context, resume);
  std::optional<Results::GoesOn> goes_on;
  if (resume && resume->same_run) {
    goes_on = {resume->manifest.step, resume->state.log_bytes, io::history_path(resume->place(), resume->manifest)};
  }
  Results results(context, lock.get(), training.assembly->config.label_names, training.assembly->label_scale,
                  training.sets.hdf5, goes_on);
  if (resume) tell_and_tidy(*resume, context);
  std::optional<TrainingLoop> loop;
  bool whole = false;
  alone_ends_all(context.world.rank(), context.failure, [&] {
    loop.emplace(training, context, results, context.requests, timers);
    if (resume) loop->restore(*resume);
    context.log.info("ready after " + core::format_duration(context.seconds()));
    whole = loop->run() && loop->test();
    if (!whole) return;
    loop->finish();
  });
  if (!whole) throw Stop{core::ExitCode::stopped};
}

}  // namespace bert_hpc::app
