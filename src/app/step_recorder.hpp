// The rows of metrics.h5 and the progress of a training: what each step adds to them.
#pragma once

#include "app/engine/trainer.hpp"
#include "app/engine/training_settings.hpp"
#include "app/engine/training_state.hpp"
#include "app/report/progress.hpp"
#include "app/report/results.hpp"
#include "app/session.hpp"

namespace bert_hpc::app {

class StepRecorder {
 public:
  /// All must outlive it.
  StepRecorder(const Session& session, const RunContext& context, Results& results);

  /// The steps after this state follow; its row continues.
  void begin(const TrainingState& state);
  /// Adds the step that led to `state`, whose row and sums grow.
  void add(const StepResult& result, TrainingState& state);
  /// Ends the row of `state`: writes it and a line of progress.
  void record(TrainingState& state, const train::LossScale::State& scale);
  /// An evaluation that began at `begin` (seconds of the run) has ended; the next row begins now.
  void add_evaluation(double begin);

  /// Draws the bar where there is one and it is due.
  void show() { display_.step(progress_, context_.seconds()); }
  /// Erases the bar.
  void finish_display() { display_.finish(); }

  double row_seconds() const { return context_.seconds() - row_begin_; }  ///< of the row so far
  double seconds() const { return context_.seconds() - begin_; }          ///< since begin()
  const EvaluationSteps& evaluations() const { return evaluations_; }

 private:
  void record_efficiency(TrainingState& state, const io::StepRow& row, std::int64_t updating);

  const Session& session_;
  const RunContext& context_;
  Results& results_;
  ProgressDisplay display_;
  ProgressState progress_;
  RecentPace pace_;
  EvaluationSteps evaluations_;
  double noise_scale_ = 0;
  double begin_ = 0, row_begin_ = 0;
  double evaluation_seconds_ = 0;  // of all evaluations since begin_
};

}  // namespace bert_hpc::app
