#include "app/step_observation.hpp"

#include "app/engine/step_loss.hpp"
#include "app/plan/simulation.hpp"
#include "app/report/call_table.hpp"
#include "app/report/profile_table.hpp"

namespace bert_hpc::app {

StepObservation::StepObservation(Session& session, const RunContext& context, Results& results)
    : session_(session),
      context_(context),
      results_(results),
      trace_(context.input.log.trace, session.loader->total_steps(), context.world, session.timers),
      profile_(context.input.log.profile) {}

void StepObservation::start(std::int64_t done) {
  first_ = done;
  if (context_.input.log.trace) session_.model->pipeline().record(&trace_.instructions());
}

void StepObservation::begin(std::int64_t done) {
  trace_.begin(done);
  profile_.begin(done, session_.loader->total_steps());
  // The first step of a start makes what later ones find; every eighth measures the gradient's noise. Of a step that is
  // profiled, the profile has the counts.
  counting_ = counts_ && done > first_ && done % 8 != 0 && profile_.observer() == nullptr;
}

void StepObservation::end(std::int64_t done) {
  trace_.end(done);
  profile_.end();
  if (counting_) {
    context_.log.info(call_table(count_, done + 1));
    counts_ = counting_ = false;
  }
  if (trace_.complete()) {
    write_trace();
    session_.model->pipeline().record(nullptr);
  }
  if (profile_.complete()) write_profile();
}

void StepObservation::finish() {
  write_trace();
  if (profile_.pending()) write_profile();
}

void StepObservation::write_trace() {
  if (!trace_.pending()) return;
  const auto trace = trace_.write(context_.input.run.directory + "/trace.json", context_.grid,
                                  context_.grid.pipeline > 1 ? train::schedule_name(schedule_of(context_.input)) : "");
  report_calibrated_simulation(context_, {*session_.sets.train, session_.batches, *session_.model},
                               trace ? &*trace : nullptr);
}

void StepObservation::write_profile() {
  io::Profile profile = profile_.take(context_.world);
  profile.peak_gflops = context_.input.run.peak_gflops.value_or(0.0);
  results_.record_profile(profile);
  context_.log.info(profile_table(profile, context_.input.run.directory + "/metrics.h5, /profile"));
}

}  // namespace bert_hpc::app
