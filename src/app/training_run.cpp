#include "app/training_run.hpp"

#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "app/checkpoint/checkpoint_contents.hpp"
#include "app/checkpoint/previous_phase.hpp"
#include "app/checkpoint/resume.hpp"
#include "app/engine/low_rank.hpp"
#include "app/engine/model_loading.hpp"
#include "app/engine/padding.hpp"
#include "app/engine/planned_data.hpp"
#include "app/engine/precision.hpp"
#include "app/engine/sentence_modules.hpp"
#include "app/engine/training_settings.hpp"
#include "app/plan/micro_batch_size.hpp"
#include "app/plan/model_choices.hpp"
#include "app/plan/simulation.hpp"
#include "app/report/describe.hpp"
#include "app/report/results.hpp"
#include "app/report/run_warnings.hpp"
#include "app/run/collective.hpp"
#include "app/run/earlier_start.hpp"
#include "app/run_start.hpp"
#include "app/session.hpp"
#include "app/training_loop.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"

namespace bert_hpc::app {
namespace {

/// Now rather than when the trained model is written.
void check_tokenizer(const Session& session, const RunBasics& run) {
  const data::ShardReader& train = *session.sets.train;
  collectively(run.world, [&] {
    if (run.world.rank() != 0 || train.planned() || train.has_embeddings()) return;
    const std::string tokenizer = tokenizer_folder(run.input, train.info(), session.model->config.vocab_size);
    if (!tokenizer.empty()) {
      tokenize::copied_tokenizer_files(tokenizer);  // throws if one cannot be copied
      return;
    }
    run.log.warning("the shards' vocabulary is neither beside them nor in model.pretrained; " +
                    run.input.run.directory + "/model will have no tokenizer");
  });
}

/// What a checkpoint takes on disk, bytes: at the end, when its metric history is longest.
std::int64_t last_checkpoint_bytes(const Session& session, const RunContext& context) {
  const ModelInstance& model = *session.model;
  const std::int64_t steps = session.loader->total_steps();
  const std::vector<ops::StateTensor> states = optimizer_states(context.input);
  constexpr std::int64_t real_characters = 25;  // at most, of a number and its separator
  io::JournalPlan plan;
  plan.text = static_cast<std::int64_t>(context.resolved.text.size());
  for (const std::string& name : model.config.label_names) plan.text += static_cast<std::int64_t>(name.size()) + 1;
  plan.text += 2 * real_characters * std::ssize(model.output_rules.scales);
  const data::BatchSchedule& sizes = session.loader->schedule();
  plan.evaluations = EvaluationSteps(context.input.evaluation, sizes).until(steps) + 1;
  plan.rows = steps / context.input.log.every_steps + plan.evaluations;
  plan.epochs = sizes.epoch_of(steps) + 1;
  plan.nodes = context.ranks();
  plan.loss_scales = context.input.precision.compute == "fp16";
  plan.profile = context.input.log.profile;
  const std::vector<const metrics::Family*>& families = model.objective.task->metrics;
  const metrics::EvaluatedSet set = {.outputs = model.config.num_labels()};
  plan.classes = metrics::matrix_classes(families, set);
  plan.counted_classes = metrics::reported_classes(families, set);
  plan.metrics = std::ssize(metrics::names_of(families));
  for (const metrics::Family* family : families) {
    if (family->column_values == nullptr || set.outputs == 1) continue;
    for (const std::string& name : model.config.label_names) {
      plan.metrics += std::ssize(family->metrics);
      plan.metric_text += std::ssize(family->metrics) * static_cast<std::int64_t>(name.size());
    }
  }
  if (session.sets.validation) plan.samples = session.sets.validation->samples();
  if (!session.sets.validation) plan.evaluations = 0;
  return checkpoint_bytes(model, states, context.ranks()) + io::journal_bytes(plan);
}

std::string checkpoints_text(const Session& session, const RunContext& context) {
  const config::Checkpoint& settings = context.input.checkpoint;
  std::string text;
  if (settings.every_steps) text = "every " + core::counted(*settings.every_steps, "step");
  if (settings.every_minutes) {
    if (!text.empty()) text += " and ";
    text += "every " + core::format_number(*settings.every_minutes) + " minutes";
  }
  if (text.empty()) text = "at least every 10 minutes";
  const std::int64_t bytes = last_checkpoint_bytes(session, context);
  return text + ", " + core::format_bytes(bytes) + " each, at most " + core::format_bytes(bytes * (settings.keep + 2)) +
         " in " + checkpoint_folder(context.input).path();
}

std::string memory_remark(const config::Batch& batch, std::int64_t tokens) {
  if (!batch.has_memory()) return "";
  return tokens < max_micro_tokens ? " (as [batch] memory allows)" : " (the largest that [batch] memory chooses)";
}

/// "grows from 768 to 4,608 by 768, the last from step 1,234 on".
std::string growth_text(const config::Batch& batch, const data::BatchSchedule& sizes, std::int64_t steps) {
  const std::int64_t full = sizes.first_full_step();
  return "grows from " + core::with_commas(sizes.size_of(0)) + " to " + core::with_commas(batch.global) + " by " +
         core::with_commas(batch.warmup_increment.value_or(0)) +
         (full < steps ? ", the last from step " + core::with_commas(full + 1) + " on" : "") + "; mean " +
         core::format_number(sizes.mean_size(0, steps), 6);
}

void describe(const Session& session, const RunContext& context) {
  const data::BatchSchedule& sizes = session.loader->schedule();
  const std::int64_t steps = session.loader->total_steps(), per_epoch = sizes.steps_per_epoch();
  const bool lists = session.batches.lists;
  auto lines = session.pipeline.lines;
  if (context.invocation.planned_tokens > 0) lines.emplace_back("plan", planned_data_text(session.sets));
  lines.emplace_back("steps", core::counted(steps, "step") + " of " +
                                  units_text(context.input, context.input.batch.global, lists) + ", " +
                                  core::with_commas(per_epoch) + " per epoch, micro-batches of at most " +
                                  core::counted(session.bounds.tokens, "token") +
                                  (context.input.run.reproducible ? "; reproducible" : "") +
                                  memory_remark(context.input.batch, session.bounds.tokens));
  if (sizes.grows()) lines.emplace_back("batch size", growth_text(context.input.batch, sizes, steps));
  const std::string padding = padding_text(session.batches.plan.padding);
  if (!padding.empty()) lines.emplace_back("padding", padding + "; limits of micro-batches count it");
  if (session.teacher_plan) {
    const std::int64_t blocks = session.model->config.num_hidden_layers;
    for (auto& line : teacher_lines(context.input, *session.teacher_plan, blocks)) lines.push_back(std::move(line));
  }
  if (session.scores_plan) lines.push_back(scores_line(context.input, *session.scores_plan));
  const std::string adapters = adapters_text(session.model->plan);
  const bool leaves_head = !context.input.model.lora.train_head.value_or(true);
  if (!adapters.empty()) lines.emplace_back("adapters", adapters + (leaves_head ? "; the head is not trained" : ""));
  const std::string gradients =
      weight_gradients_text(context.input, session.model->config, context.grid, session.micro_batches());
  if (!gradients.empty()) lines.emplace_back("gradients", gradients);
  const objectives::Objective& objective = session.model->objective;
  if (objective.training_lines != nullptr) {
    for (auto& line : objective.training_lines({.task = context.input.task,
                      .rules = session.output_rules,
                      .loss = session.loss,
                      .label_names = session.model->config.label_names})) {
      if (!line.second.empty()) lines.push_back(std::move(line));
    }
  }
  lines.emplace_back("checkpoints", checkpoints_text(session, context));
  const train::ShardSettings shards = session.shards_of(*session.model);
  lines.emplace_back("update", train::plan_shards(session.model->parameters, shards, context.grid.data).describe());
  session.describe(lines);
  const std::int64_t units = session.loader->units(), first_full = sizes.first_full_step();
  for (const std::string& warning : training_warnings(context.input, steps, units, lists, first_full)) {
    context.log.warning(warning);
  }
  const std::string warning =
      objective.training_warning != nullptr ? objective.training_warning(*session.sets.train) : std::string();
  if (!warning.empty()) context.log.warning(warning);
  if (objective.task->embeds_texts) warn_of_prompts(context, session.sets);
}

/// Prepares the directory to resume from here: removes later steps that a resuming run could take for its own. Only
/// then is it noted: a start that is killed before begins where this one did.
void begin_from_checkpoint(const Resume& resume, const RunBasics& run, std::int64_t total_steps) {
  if (resume.next_phase) return run.log.info(phase_text(resume, run.input.run, total_steps));
  run.log.info("resuming from step " + core::with_commas(resume.manifest.step) + " (" + resume.path() + ')');
  for (const KeyChange& change : resume.changes) run.log.info("changed since that step: " + describe(change));
  for (const std::string& warning : resume.warnings) run.log.warning("changed since that step: " + warning);
  if (resume.best_elsewhere) {
    run.log.info("the best model so far, of step " + core::with_commas(*resume.best_elsewhere) +
                 ", belongs to the run that made it: this run selects its own best model from here on");
  }
  if (!resume.same_run) return;
  collectively(run.world, [&] {
    if (run.world.rank() != 0) return;
    const io::CheckpointFolder& folder = resume.folder;
    folder.set_pointers(resume.manifest.step, resume.state.best.checkpoint());
    for (const std::int64_t step : folder.steps()) {
      if (step <= resume.manifest.step) continue;
      run.log.info("the later checkpoint of step " + core::with_commas(step) + " is renamed to " +
                   folder.set_aside(step));
    }
    // A run never reads them: they are for a person to look into, and would fill the disk of a run that is often
    // damaged.
    constexpr std::size_t kept = 2;
    for (const std::string& name : folder.prune_set_aside(kept)) {
      run.log.info(name + " is removed: only the " + std::to_string(kept) + " newest renamed checkpoints are kept");
    }
    note_start(run.input.run.directory, start_of(run.input));
  });
}

/// A line if the teacher's labels are not written as the student's.
void report_teacher(const ClassifierUse& classifier, const RunContext& context) {
  const std::string note = "[distill] teacher: " + classifier.note;
  if (classifier.is_doubtful) {
    context.log.warning(note);
  } else if (!classifier.note.empty()) {
    context.log.info(note);
  }
}

/// Collective. Rank 0 reads the stored outputs.
void load_scores(Session& session, const RunContext& context) {
  const ScoresPlan& plan = *session.scores_plan;
  report_teacher(plan.classifier, context);
  std::vector<float> scores(static_cast<std::size_t>(plan.samples * plan.outputs));
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    const std::lock_guard lock(session.sets.hdf5);
    scores = read_scores(plan, *session.sets.train, session.output_rules.scales);
  });
  context.world.broadcast(std::span<float>(scores), 0);
  session.scores->load(scores);
}

SimulatedRun simulated_run(const Session& session, const RunContext& context) {
  const std::int64_t steps = session.loader->total_steps();
  const EvaluationSteps evaluations(context.input.evaluation, session.loader->schedule());
  const bool predicts = !session.sets.test && session.model->objective.task->predicts_validation;
  return {.reader = *session.sets.train,
          .batches = session.batches,
          .model = *session.model,
          .teacher = session.teacher_plan ? &*session.teacher_plan : nullptr,
          .validation = session.sets.validation.get(),
          .test = session.sets.test.get(),
          .steps = steps,
          .evaluations = session.sets.validation ? evaluations.left(0, steps) + (predicts ? 1 : 0) : 0,
          .mean_size = session.loader->schedule().mean_size(0, steps),
          .checkpoint_bytes = last_checkpoint_bytes(session, context),
          .usual_micro_tokens = session.usual_micro_tokens};
}

/// For --validate: where the run would begin. The state of its own directory is a note; a checkpoint that the input
/// names must serve.
void report_beginning(Session& session, const RunContext& context) {
  std::string note = directory_note(context);
  const bool own = context.input.run.resume == "auto";
  const std::int64_t steps = session.loader->total_steps();
  const bool planned = session.sets.train->planned();  // of other data than a checkpoint's
  bool resumes = false;
  if (planned) {
    note.clear();
  } else if (note.empty() || !own) {
    try {
      const auto resume = choose_checkpoint(context, *session.model, session.sets, steps);
      resumes = resume.has_value();
      if (resume) context.log.info("it would resume from step " + core::with_commas(resume->manifest.step));
    } catch (const AgreedError& error) {
      if (!own) throw;
      note = error.what();
    }
  }
  if (!planned && !resumes) {
    const auto phase = begin_phase(context, *session.model, session.sets, steps);
    if (phase) context.log.info(phase_text(*phase, context.input.run, steps));
  }
  note_directory(context.log, note);
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
  SessionData data(context);
  Session session(context, data, true);
  check_tokenizer(session, context);
  describe(session, context);
  const SimulatedRun simulated = simulated_run(session, context);
  report_simulation(context, simulated);
  report_choices(context, simulated,
                 [&session](const config::Config& input) { return session.most_bytes_with(input); });
  if (context.invocation.validate) {
    report_beginning(session, context);
    report_load(session.load_notes, context);
    context.log.info(valid_input);
    return;
  }
  const std::unique_ptr<io::RunLock> lock = lock_run_directory(context);
  const std::int64_t steps = session.loader->total_steps();
  std::optional<Resume> resume = choose_checkpoint(context, *session.model, session.sets, steps);
  if (!resume) resume = begin_phase(context, *session.model, session.sets, steps);
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    checkpoint_folder(context.input)
        .require_space(checkpoint_bytes(*session.model, optimizer_states(context.input), context.world.size()));
  });
  session.connect();
  collectively(context.world, [&] { session.model->head_is_new = keeps_new_head(*session.model, context.input); });
  if (!resume) report_load(load_values(*session.model, context.input), context);
  if (!resume && !context.input.distill.initialize.empty()) {
    take_blocks(*session.model, *session.teacher_plan, context.input);
  }
  if (session.teacher) {
    report_teacher(session.teacher_plan->classifier, context);
    session.teacher->load(session.output_rules);
  }
  if (session.scores) load_scores(session, context);
  leave_if_asked(context);
  report_earlier_start(context, resume);
  std::optional<Results::Continuation> continuation;
  if (resume && resume->same_run) {
    continuation = {resume->manifest.step, resume->state.log_bytes, io::history_path(resume->path(), resume->manifest)};
  }
  Results results(context, lock.get(), facts_of(*session.model), session.sets.hdf5, continuation);
  if (resume) begin_from_checkpoint(*resume, context, steps);
  std::optional<TrainingLoop> loop;
  bool whole = false;
  alone_ends_all(context.world.rank(), context.failure, [&] {
    loop.emplace(session, context, results);
    if (resume) loop->restore(*resume);
    start_reading(session.sets);
    context.log.info("ready after " + core::format_duration(context.seconds()));
    whole = loop->run() && loop->test();
    if (!whole) return;
    loop->finish();
  });
  if (!whole) throw Stop{core::ExitCode::stopped};
}

}  // namespace bert_hpc::app
