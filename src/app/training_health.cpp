#include "app/training_health.hpp"

#include "app/engine/skipped_step.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/objectives/one_answer.hpp"

namespace bert_hpc::app {

void TrainingHealth::report_skipped(const StepResult& result, const SkippedSteps& skipped, double loss_scale,
                                    std::int64_t done) const {
  const auto text = [&] {
    return skipped_text(done, result, [this](std::int64_t sample) { return session_.sets.train->location(sample); });
  };
  if (ends(skipped)) {
    throw AgreedError(core::ExitCode::numerical,
                      text() + ", the last of " + std::to_string(skipped.in_a_row) +
                          " in a row (optimizer.max_skipped_steps = " + std::to_string(max_skipped()) +
                          "). Training cannot continue. " + advice());
  }
  const SkipReport report = skip_report(skipped.total);
  const std::string count = core::counted(skipped.total, "step") + " skipped so far";
  if (report == SkipReport::count) run_.log.info(count);
  if (report != SkipReport::details) return;
  const std::string later = skipped.total == max_skips_listed ? " Later ones are only counted." : "";
  if (result.backed_off) {
    run_.log.info("step " + core::with_commas(done) + " was skipped: beyond fp16's range; loss scale now " +
                  core::format_number(loss_scale) + "." + later);
  } else {
    run_.log.warning(text() + ". The parameters are unchanged; " + count + "." + later);
  }
}

void TrainingHealth::require_updates(const SkippedSteps& skipped, std::int64_t done) const {
  if (skipped.total == 0 || skipped.total < done) return;
  throw AgreedError(core::ExitCode::numerical, nothing_trained_text(skipped.total) + " " + advice());
}

std::string TrainingHealth::advice() const {
  return divergence_advice(run_.input.precision.compute == "fp16", run_.input.optimizer.max_gradient_norm);
}

void TrainingHealth::check_answers(const std::string& split, const Evaluator& evaluator, bool last, std::int64_t done) {
  const auto answer = evaluator.one_answer();
  one_answers_ = answer ? one_answers_ + 1 : 0;
  if (!answer || !(last || one_answers_ == 2)) return;
  run_.log.warning(
      objectives::one_answer_in_training(split, *answer, session_.model->config.label_names, run_.input, done));
}

void TrainingHealth::check_best(const std::string& split, const Evaluator& evaluator, std::int64_t done) {
  if (one_answers_ == 0) check_answers(split, evaluator, true, done);
}

}  // namespace bert_hpc::app
