#include "app/training_loop.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "app/checkpoint/checkpoint_loading.hpp"
#include "app/engine/model_loading.hpp"
#include "app/engine/step_loss.hpp"
#include "app/report/describe.hpp"
#include "app/report/timing_table.hpp"
#include "app/run/collective.hpp"
#include "app/threshold_search.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/objectives/prediction_files.hpp"

namespace bert_hpc::app {
namespace {

TrainerSettings settings_of(const Session& session, const config::Config& input) {
  const data::BatchLoader& loader = *session.loader;
  TrainerSettings settings = trainer_settings(input, loader.total_steps(), &loader.schedule());
  settings.rows = session.bounds.selected;
  settings.micro_batches = session.micro_batches();
  settings.loss = session.loss;
  settings.step_loss = session.step_loss(*session.model);
  settings.distillation = session.distillation();
  return settings;
}

}  // namespace

TrainingLoop::TrainingLoop(Session& session, const RunContext& context, Results& results)
    : session_(session),
      context_(context),
      results_(results),
      trainer_(settings_of(session, context.input), *session.model, *session.sums, session.timers,
               session.teacher ? &*session.teacher : nullptr, session.scores ? &*session.scores : nullptr),
      checkpoints_({context, *session.model, *session.sums, trainer_.optimizer(), context.requests, results,
                    session.sets.hdf5, session.timers},
                   checkpoint_texts(context, *session.model, session.sets)),
      recorder_(session, context, results),
      health_(session, context),
      best_(context.input.evaluation),
      observation_(session, context, results) {}

void TrainingLoop::restore(const Resume& resume) {
  std::mutex& hdf5 = session_.sets.hdf5;
  ModelInstance& model = *session_.model;
  state_ = resume.state;
  // RUN/model may be of a later step than this, of which nothing is left.
  if (state_.best.kept) {
    state_.best.kept = load_best(context_, resume, model, hdf5);
    if (state_.best.kept) results_.export_model(model, session_.sets.train->info());
  }
  best_.restore(state_.best);
  load_parameters(resume.folder, resume.manifest, model, hdf5);
  load_states(resume.folder, resume.manifest, model, *session_.sums, trainer_.optimizer(), hdf5);
  trainer_.noise().restore(state_.noise);
  trainer_.skipped() = state_.skipped;
  trainer_.set_earlier_updates(state_.earlier_updates);
  trainer_.loss_scale().restore(state_.loss_scale);
  trainer_.restore_fp8(std::exchange(state_.fp8_magnitudes, {}));
  session_.loader->restart(state_.done);
  context_.activity.finished(state_.done);
  first_ = state_;
}

bool TrainingLoop::run() {
  context_.activity.enter("step");
  recorder_.begin(state_);
  observation_.start(state_.done);
  // What was saved before is good: it must not be lost with what comes after, where all ranks know of that.
  try {
    for (bool last = steps(); !last;) last = step();
    if (!stopped_) health_.require_updates(trainer_.skipped(), state_.done);
  } catch (const AgreedError&) {
    checkpoints_.finish();
    throw;
  } catch (const Stop&) {
    checkpoints_.finish();
    throw;
  }
  recorder_.finish_display();
  observation_.finish();
  if (stopped_) {
    stop();
    return false;
  }
  // A stop during the test must not cost the steps since the last checkpoint.
  const bool saves = session_.test || predicted_validation() != nullptr || context_.input.checkpoint.at_end;
  state_.ended = true;
  if (saves && state_.done > std::max(first_.done, checkpoints_.last_step())) save(false);
  checkpoints_.finish();  // a failure is a warning: the results are complete
  if (!best_.kept()) results_.export_model(*session_.model, session_.sets.train->info());
  return true;
}

/// Before the first step: is there none?
bool TrainingLoop::steps() {
  if (state_.evaluation_due && evaluate()) return true;
  state_.evaluation_due = false;
  if (std::exchange(better_, false)) save(false);
  return best_.patience_is_over() || !session_.loader->has_next();
}

bool TrainingLoop::step() {
  const data::BatchLoader& loader = *session_.loader;
  observation_.begin(state_.done);
  const data::LoadedStep& loaded = next_step();
  if (state_.done > first_.done) checkpoints_.hold(current_state(false));
  const StepResult result = train_on(loaded);
  observation_.end(state_.done);
  if (result.flags.lost > 0) collectively(context_.world, [this] { results_.require_lock(); });
  context_.activity.finished(++state_.done);
  recorder_.add(result, state_);
  if (result.skipped) report_skipped(result);
  const bool evaluates = recorder_.evaluations().due(state_.done) || !loader.has_next();
  const bool records = state_.done % context_.input.log.every_steps == 0 || evaluates;
  if (records) record();
  epoch_ended_ = epoch_ended_ || loader.schedule().ends_epoch(state_.done);
  recorder_.show();
  checkpoints_.follow(result.flags);
  // On a stop request, skip the evaluation; the resumed run performs it.
  stopped_ = result.flags.stop > 0;
  bool last = !loader.has_next();
  if (evaluates && !stopped_) last = evaluate() || last;
  if ((epoch_ended_ && records) || last || stopped_) record_data();
  state_.ended = last && !stopped_;
  const bool best = std::exchange(better_, false);
  if (best || stopped_ || checkpoints_.due(state_.done, result.flags)) save(evaluates && stopped_);
  results_.poll();
  return last || stopped_;
}

void TrainingLoop::record() {
  recorder_.record(state_, trainer_.loss_scale().state());
}

/// At the end of an epoch, of several short ones, or of the training.
void TrainingLoop::record_data() {
  epoch_ended_ = false;
  const data::ShardReader& train = *session_.sets.train;
  results_.record_data(state_.done, session_.loader->schedule().epochs_of(state_.done), train.file_bytes(),
                       train.bytes_read());
}

/// Throws AgreedError(numerical) where too many were skipped in a row.
void TrainingLoop::report_skipped(const StepResult& result) {
  if (health_.ends(trainer_.skipped())) record();
  health_.report_skipped(result, trainer_.skipped(), trainer_.loss_scale().scale(), state_.done);
}

StepResult TrainingLoop::train_on(const data::LoadedStep& loaded) {
  const core::ObserveCalls observed(observation_.observer());
  return trainer_.step(loaded, state_.done,
                       {.flags = [this] { return flags(); }, .before_update = [this] { checkpoints_.release(); }});
}

StepFlags TrainingLoop::flags() {
  if (context_.input.debug.step_delay_seconds > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(context_.input.debug.step_delay_seconds));
  }
  const std::int64_t done = state_.done - first_.done;
  if (done > 0) {
    const double seconds_per_step = recorder_.seconds() / static_cast<double>(done);
    const data::BatchSchedule& sizes = session_.loader->schedule();
    const std::int64_t steps = session_.loader->total_steps();
    const double growth = sizes.mean_size(0, steps) / sizes.mean_size(first_.done, state_.done);
    checkpoints_.expect(seconds_per_step * growth * static_cast<double>(steps));
  }
  StepFlags flags = checkpoints_.flags();
  flags.lost = results_.lost() ? 1 : 0;
  return flags;
}

void TrainingLoop::save(bool evaluation_due) {
  TrainingState state = current_state(evaluation_due);
  state.fp8_magnitudes = trainer_.fp8_magnitudes();
  state.log_bytes = results_.log_bytes();
  checkpoints_.save(state);
}

/// All but what takes a collective call or a look at a file.
TrainingState TrainingLoop::current_state(bool evaluation_due) {
  TrainingState state = state_;
  state.evaluation_due = evaluation_due && session_.validation;
  state.row.seconds = recorder_.row_seconds();
  state.seconds = total_seconds();
  state.noise = trainer_.noise().sums();
  state.skipped = trainer_.skipped();
  state.loss_scale = trainer_.loss_scale().state();
  state.label_unit = objectives::unit_text(session_.model->output_rules.scales);
  state.best = best_.state();
  return state;
}

void TrainingLoop::stop() {
  if (!checkpoints_.finish()) {
    throw AgreedError(
        core::ExitCode::files,
        "the run was asked to stop, but its checkpoint could not be written: the steps since the previous "
        "checkpoint are lost. The warning above has the reason.");
  }
  context_.log.info("stopped after step " + core::with_commas(state_.done) + " " + agreed_stop_reason(context_) +
                    "; checkpoint written; run the same command, or submit the job again, to resume");
  results_.stop();
}

/// The validation data if a training writes its predictions instead of those of test data; else null.
Evaluator* TrainingLoop::predicted_validation() const {
  const bool predicts = !session_.test && session_.validation && session_.model->objective.task->predicts_validation;
  return predicts ? &*session_.validation : nullptr;
}

bool TrainingLoop::test() {
  Evaluator* const validation = predicted_validation();
  if (!session_.test && validation == nullptr) return true;
  const std::string split = validation != nullptr ? "validation" : "test";
  Evaluator& evaluator = validation != nullptr ? *validation : *session_.test;
  if (best_.kept()) load_folder(*session_.model, results_.model_folder());
  const auto timed = session_.timers.measure("evaluation");
  if (!search_threshold(session_, context_, state_.done, [this] { return asked_to_stop(); })) {
    stop();
    return false;
  }
  const objectives::PredictionsFacts predictions = results_.predictions_of(split, *session_.model);
  const bool writes = session_.model->objective.task->predicts_samples;
  const std::int64_t of_step = best_.kept() ? best_.step() : state_.done;
  const std::optional<io::EvaluationRow> row = evaluator.evaluate_unless(
      of_step, [this] { return asked_to_stop(); }, writes ? &predictions : nullptr);
  if (!row) {
    stop();
    return false;
  }
  if (validation != nullptr) {  // its evaluations are recorded
    context_.log.info("predictions of the validation split are in " + context_.input.run.directory);
    if (of_step < state_.done) health_.check_best(split, evaluator, of_step);
    return true;
  }
  results_.record_evaluation("test", *row);
  context_.log.info(evaluation_line("test", *row, *session_.model));
  health_.check_answers("test", *session_.test, true, of_step);
  return true;
}

void TrainingLoop::finish() {
  const double training_seconds = state_.training_seconds - first_.training_seconds;
  TimingFacts facts;
  session_.timers.finish();
  facts.wall_seconds = recorder_.seconds();
  facts.sections = results_.record_timers(session_.timers, facts.wall_seconds);
  facts.ranks = context_.world.size();
  facts.model_flops = state_.flops - first_.flops;
  facts.computing_seconds = training_seconds;
  facts.tokens = state_.tokens - first_.tokens;
  facts.computed_tokens = state_.computed_tokens - first_.computed_tokens;
  facts.samples = state_.samples - first_.samples;
  facts.peak_gflops = context_.input.run.peak_gflops.value_or(0.0);
  const std::vector<io::RankRow> ranks = results_.record_ranks(context_, context_.device.name, session_.memory(),
                                                               rank_time(session_.timers.sections(), training_seconds));
  const std::int64_t skipped = trainer_.skipped().total;
  if (skipped > 0) {
    context_.log.warning(core::with_commas(skipped) + " of " + core::counted(state_.done, "step") +
                         " were skipped: their loss or gradient was not finite");
  }
  const std::string memory = memory_line(ranks);
  results_.finish(run_totals(current_state(false), facts.wall_seconds));
  context_.log.info(timing_table(facts));
  if (!memory.empty()) context_.log.info(memory);
  context_.log.info("model in " + results_.model_folder() +
                    (session_.model->plan.low_rank ? ", adapter in " + results_.adapter_folder() : "") +
                    ", metrics in " + context_.input.run.directory + "/metrics.h5");
}

const data::LoadedStep& TrainingLoop::next_step() {
  const auto timed = session_.timers.measure("data loading");
  return session_.loader->next();
}

/// True if there is no further step: patience is over, or the evaluation was given up for a stop.
bool TrainingLoop::evaluate() {
  if (!session_.validation) return false;
  const auto timed = session_.timers.measure("evaluation");
  const double begin = context_.seconds();
  if (state_.done > first_.done) checkpoints_.hold(current_state(true));
  const std::optional<io::EvaluationRow> row =
      session_.validation->evaluate_unless(state_.done, [this] { return asked_to_stop(); });
  checkpoints_.release();
  if (!row) {
    stopped_ = true;
    return true;
  }
  results_.record_evaluation("validation", *row);
  context_.log.info(evaluation_line("validation", *row, *session_.model));
  const bool untrained = trainer_.skipped().total > 0 && trainer_.skipped().total == state_.done;
  better_ = !untrained && best_.offer(*row);
  if (const std::string metric = best_.undefined_metric(*row); !metric.empty()) {
    context_.log.warning("validation: " + metric + " is not a number, so this evaluation selects no model" +
                         (best_.kept() ? "."
                                       : ": RUN/model is the last one unless a later evaluation has a number. "
                                         "Check the labels of the validation split, or choose another metric "
                                         "in evaluation.best."));
  }
  if (better_) results_.export_model(*session_.model, session_.sets.train->info());
  recorder_.add_evaluation(begin);
  health_.check_answers("validation", *session_.validation, best_.patience_is_over() || !session_.loader->has_next(),
                        state_.done);
  if (!best_.patience_is_over()) return false;
  context_.log.info("stopping early: no better " + *context_.input.evaluation.best + " in the last " +
                    core::counted(*context_.input.evaluation.patience, "evaluation"));
  return true;
}

}  // namespace bert_hpc::app
