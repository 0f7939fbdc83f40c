// What looks at the steps of a training on request: the trace of a few (log.trace), the profile of a few (log.profile),
// and the count of one's calls (BERT_HPC_COUNT_LAUNCHES=1).
#pragma once

#include "app/report/kernel_profile.hpp"
#include "app/report/results.hpp"
#include "app/report/step_trace.hpp"
#include "app/session.hpp"
#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/environment.hpp"

namespace bert_hpc::app {

class StepObservation {
 public:
  /// Collective. All must outlive it.
  StepObservation(Session& session, const RunContext& context, Results& results);

  /// The steps after the first `done` follow.
  void start(std::int64_t done);
  /// Around step number `done` (from 0), with its data.
  void begin(std::int64_t done);
  /// Collective. Writes what is complete.
  void end(std::int64_t done);
  /// Collective. Writes what there is of a run that ended early.
  void finish();

  /// Who sees the calls of the step that began; null: none.
  core::CallObserver* observer() { return counting_ ? &count_ : profile_.observer(); }

 private:
  void write_trace();
  void write_profile();

  Session& session_;
  const RunContext& context_;
  Results& results_;
  StepTrace trace_;
  KernelProfile profile_;
  core::CallCount count_;
  std::int64_t first_ = 0;  // of this start
  bool counts_ = core::environment("BERT_HPC_COUNT_LAUNCHES") == "1", counting_ = false;
};

}  // namespace bert_hpc::app
