// The rows of metrics.h5 and the lines of a training: what steps add to them, and warnings about skipped steps and
// models that give one answer.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "bert_hpc/app/engine/one_answer.hpp"
#include "bert_hpc/app/engine/skipped_step.hpp"
#include "bert_hpc/app/run/collective.hpp"
#include "bert_hpc/core/text.hpp"
#include "training_loop.hpp"

namespace bert_hpc::app {

void TrainingLoop::account(const StepResult& result) {
  io::StepRow& row = state_.row;
  row.step = state_.done;
  row.epoch = static_cast<double>(state_.done) / static_cast<double>(session_.loader->steps_per_epoch());
  if (result.skipped) {
    ++row.skipped;
    state_.row_skipped_samples += result.samples;
  } else {
    row.loss += result.loss * result.targets;  // record() divides
    state_.row_targets += result.targets;
  }
  row.learning_rate = result.learning_rate;
  row.gradient_norm = result.gradient_norm;
  row.samples += result.samples;
  row.tokens += result.tokens;
  state_.flops += model::training_flops(session_.assembly->config, session_.assembly->objective.head, result.tokens,
                                        result.sum_of_squared_lengths, result.targets);
  progress_.step = state_.done;
  progress_.epoch = row.epoch;
  // Since the last line: a step alone, the small one at an epoch's end above all, says little.
  progress_.loss = state_.row_targets > 0 ? row.loss / state_.row_targets : result.loss;
  progress_.learning_rate = result.learning_rate;
  const double now = context_.seconds(), since_row = now - row_begin_;
  pace_.add(state_.done, now - begin_ - evaluation_seconds_);
  progress_.seconds_per_step = pace_.seconds_per_step();
  if (session_.validation) {
    progress_.evaluations_left = evaluations_left(state_.done, progress_.total_steps, evaluation_interval_);
  }
  // Shorter spans than this say more about one batch than about the speed.
  if (since_row > 0.5) progress_.tokens_per_second = static_cast<double>(row.tokens) / since_row;
}

void TrainingLoop::report_skipped(const StepResult& result) {
  const SkippedSteps& skipped = trainer_.skipped();
  const std::int64_t most = context_.input.optimizer.max_skipped_steps;
  const auto text = [&] {
    return skipped_text(state_.done, result,
                        [this](std::int64_t sample) { return session_.sets.train->place(sample); });
  };
  if (skipped.in_a_row > most) {
    record();
    throw AgreedError(core::ExitCode::numerical, text() + ", the last of " + std::to_string(skipped.in_a_row) +
                                                     " in a row (optimizer.max_skipped_steps = " +
                                                     std::to_string(most) + "). Training cannot continue. " + advice());
  }
  const SkipReport report = skip_report(skipped.total);
  const std::string count = core::counted(skipped.total, "step") + " skipped so far";
  if (report == SkipReport::count) context_.log.info(count);
  if (report != SkipReport::details) return;
  const std::string later = skipped.total == most_skips_listed ? " Later ones are only counted." : "";
  if (result.backed_off) {
    context_.log.info("step " + core::with_commas(state_.done) + " was skipped: beyond fp16's range; loss scale now " +
                      core::format_number(trainer_.loss_scale().scale()) + "." + later);
  } else {
    context_.log.warning(text() + ". The parameters are unchanged; " + count + "." + later);
  }
}

void TrainingLoop::require_updates() {
  const std::int64_t skipped = trainer_.skipped().total;
  if (skipped == 0 || skipped < state_.done) return;
  throw AgreedError(core::ExitCode::numerical, nothing_trained_text(skipped) + " " + advice());
}

std::string TrainingLoop::advice() const {
  return divergence_advice(context_.input.precision.compute == "fp16", context_.input.optimizer.max_gradient_norm);
}

void TrainingLoop::check_answers(const std::string& split, const Evaluator& evaluator, bool last) {
  const auto answer = evaluator.one_answer();
  one_answers_ = answer ? one_answers_ + 1 : 0;
  if (!answer || !(last || one_answers_ == 2)) return;
  context_.log.warning(
      one_answer_in_training(split, *answer, session_.assembly->config.label_names, context_.input, state_.done));
}

void TrainingLoop::record() {
  io::StepRow& row = state_.row;
  const double now = context_.seconds();
  row.seconds = now - row_begin_;
  const double targets = std::exchange(state_.row_targets, 0.0);
  row.loss = targets > 0 ? row.loss / targets : std::numeric_limits<double>::quiet_NaN();
  const std::int64_t updating = row.samples - std::exchange(state_.row_skipped_samples, 0);
  row_begin_ = now;
  results_.record_step(row);
  const train::LossScale::State& scale = trainer_.loss_scale().state();
  if (context_.input.precision.compute == "fp16") results_.record_loss_scale({row.step, scale.scale, scale.skipped});
  if (std::isfinite(noise_scale_) && noise_scale_ != state_.recorded_noise_scale) {  // measured anew
    state_.recorded_noise_scale = noise_scale_;
    const std::int64_t epoch = session_.sets.train->samples();  // an update has no more than these
    const auto batch = static_cast<double>(std::min(context_.input.batch.global, epoch));
    const double efficiency = train::statistical_efficiency(noise_scale_, batch);
    results_.record_efficiency(
        {row.step, noise_scale_, efficiency, static_cast<double>(updating) / row.seconds * efficiency});
  }
  state_.training_seconds += row.seconds;
  state_.tokens += row.tokens;
  state_.samples += row.samples;
  progress_.tokens_per_second = static_cast<double>(row.tokens) / row.seconds;
  display_.line(progress_);
  row = {};
}

}  // namespace bert_hpc::app
