// The steps of a training and what accompanies them: evaluations, rows and lines, checkpoints, the end on request.
#pragma once

#include "app/checkpoint/checkpointer.hpp"
#include "app/checkpoint/resume.hpp"
#include "app/engine/trainer.hpp"
#include "app/engine/training_settings.hpp"
#include "app/engine/training_state.hpp"
#include "app/report/results.hpp"
#include "app/session.hpp"
#include "app/step_observation.hpp"
#include "app/step_recorder.hpp"
#include "app/training_health.hpp"

namespace bert_hpc::app {

class TrainingLoop {
 public:
  /// Collective. All must outlive it.
  TrainingLoop(Session& session, const RunContext& context, Results& results);

  /// Collective. Before run(): resumes from this checkpoint.
  void restore(const Resume& resume);

  /// Collective. The steps that are left. False if the run was asked to stop and has done so, with a checkpoint.
  bool run();
  /// Collective. The test data, or predictions of the validation data, with the model that is kept. False if the run
  /// was asked to stop meanwhile and has done so.
  bool test();
  /// Collective. Timing table, totals.
  void finish();

 private:
  bool steps();
  bool step();  // true if it is the last one
  bool evaluate();
  Evaluator* predicted_validation() const;
  bool asked_to_stop() const { return context_.world.any(checkpoints_.wants_stop()); }
  void report_skipped(const StepResult& result);
  void record();
  void record_data();
  StepResult train_on(const data::LoadedStep& loaded);
  StepFlags flags();
  void save(bool evaluation_due);
  TrainingState current_state(bool evaluation_due);
  void stop();
  const data::LoadedStep& next_step();
  double total_seconds() const { return first_.seconds + context_.seconds(); }

  Session& session_;
  const RunContext& context_;
  Results& results_;
  Trainer trainer_;
  Checkpointer checkpoints_;
  StepRecorder recorder_;
  TrainingHealth health_;
  BestModel best_;
  StepObservation observation_;
  TrainingState state_;
  TrainingState first_;  // before the first step of this start
  bool stopped_ = false, better_ = false;
  bool epoch_ended_ = false;  // since what was read was recorded
};

}  // namespace bert_hpc::app
