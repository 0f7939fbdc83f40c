#include "app/step_recorder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "app/run/terminal.hpp"
#include "bert_hpc/model/model_costs.hpp"
#include "bert_hpc/train/efficiency.hpp"

namespace bert_hpc::app {
namespace {

ProgressMode display_mode(const RunBasics& run) {
  if (run.world.rank() != 0) return ProgressMode::none;
  const Terminal terminal = inspect_terminal();
  return progress_mode(run.input.log.progress, terminal.present, terminal.name);
}

}  // namespace

StepRecorder::StepRecorder(const Session& session, const RunContext& context, Results& results)
    : session_(session),
      context_(context),
      results_(results),
      display_(context.log, display_mode(context), [] { return inspect_terminal().columns; }),
      evaluations_(context.input.evaluation, session.loader->schedule()) {
  progress_.total_steps = session.loader->total_steps();
}

void StepRecorder::begin(const TrainingState& state) {
  begin_ = context_.seconds();
  row_begin_ = begin_ - state.row.seconds;
  pace_.add(state.done, 0);
}

void StepRecorder::add(const StepResult& result, TrainingState& state) {
  io::StepRow& row = state.row;
  row.step = state.done;
  const data::BatchSchedule& sizes = session_.loader->schedule();
  row.epoch = sizes.epochs_of(state.done);
  if (result.skipped) {
    ++row.skipped;
    state.row_skipped_samples += result.samples;
  } else {
    row.loss += result.loss * result.targets;  // record() divides
    state.row_targets += result.targets;
  }
  row.learning_rate = result.learning_rate;
  row.gradient_norm = result.gradient_norm;
  row.samples += result.samples;
  row.tokens += result.tokens;
  row.computed_tokens += result.computed_tokens;
  state.flops += model::training_flops(session_.model->plan, {.tokens = static_cast<double>(result.tokens),
                                                              .squared_lengths = result.sum_of_squared_lengths,
                                                              .logit_positions = result.targets});
  noise_scale_ = result.noise_scale;
  progress_.step = state.done;
  progress_.epoch = row.epoch;
  // Since the last line: a step alone, the small one at an epoch's end above all, says little.
  progress_.loss = state.row_targets > 0 ? row.loss / state.row_targets : result.loss;
  progress_.learning_rate = result.learning_rate;
  const double now = context_.seconds(), since_row = now - row_begin_;
  pace_.add(state.done, now - begin_ - evaluation_seconds_);
  progress_.seconds_per_step = pace_.seconds_per_step();
  progress_.growth = sizes.mean_size(state.done, progress_.total_steps) / sizes.mean_size(state.done - 1, state.done);
  if (session_.validation) {
    progress_.evaluations_left = evaluations_.left(state.done, progress_.total_steps);
  }
  // Shorter spans than this say more about one batch than about the speed.
  if (since_row > 0.5) progress_.tokens_per_second = static_cast<double>(row.tokens) / since_row;
}

void StepRecorder::record(TrainingState& state, const train::LossScale::State& scale) {
  io::StepRow& row = state.row;
  const double now = context_.seconds();
  row.seconds = now - row_begin_;
  const double targets = std::exchange(state.row_targets, 0.0);
  row.loss = targets > 0 ? row.loss / targets : std::numeric_limits<double>::quiet_NaN();
  const std::int64_t updating = row.samples - std::exchange(state.row_skipped_samples, 0);
  row_begin_ = now;
  results_.record_step(row);
  if (context_.input.precision.compute == "fp16") results_.record_loss_scale({row.step, scale.scale, scale.skipped});
  record_efficiency(state, row, updating);
  state.training_seconds += row.seconds;
  state.tokens += row.tokens;
  state.computed_tokens += row.computed_tokens;
  state.samples += row.samples;
  progress_.tokens_per_second = static_cast<double>(row.tokens) / row.seconds;
  display_.line(progress_);
  row = {};
}

/// Records statistical efficiency if the noise scale was measured since the last record. `updating`: samples of the row
/// in steps that were not skipped.
void StepRecorder::record_efficiency(TrainingState& state, const io::StepRow& row, std::int64_t updating) {
  if (!std::isfinite(noise_scale_) || noise_scale_ == state.recorded_noise_scale) return;
  state.recorded_noise_scale = noise_scale_;
  const std::int64_t epoch = session_.loader->units();  // an update has no more than these
  const std::int64_t size = session_.loader->schedule().size_of(row.step - 1);
  const double batch = session_.loader->sequences_per_unit() * static_cast<double>(std::min(size, epoch));
  const double efficiency = train::statistical_efficiency(noise_scale_, batch);
  results_.record_efficiency(
      {row.step, noise_scale_, efficiency, static_cast<double>(updating) / row.seconds * efficiency});
}

void StepRecorder::add_evaluation(double begin) {
  row_begin_ = context_.seconds();
  progress_.seconds_per_evaluation = row_begin_ - begin;
  evaluation_seconds_ += progress_.seconds_per_evaluation;
}

}  // namespace bert_hpc::app
