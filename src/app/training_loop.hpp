// The steps of a training and what accompanies them: evaluations, rows and lines, checkpoints, the end on request.
#pragma once

#include "bert_hpc/app/checkpoint/checkpointer.hpp"
#include "bert_hpc/app/checkpoint/resume.hpp"
#include "bert_hpc/app/engine/trainer.hpp"
#include "bert_hpc/app/engine/training_settings.hpp"
#include "bert_hpc/app/engine/training_state.hpp"
#include "bert_hpc/app/report/progress.hpp"
#include "bert_hpc/app/report/results.hpp"
#include "bert_hpc/app/report/step_trace.hpp"
#include "bert_hpc/core/environment.hpp"
#include "bert_hpc/app/session.hpp"

namespace bert_hpc::app {

class TrainingLoop {
 public:
  /// Collective. All must outlive it.
  TrainingLoop(Session& session, const RunContext& context, Results& results);

  /// Collective. Before run(): goes on from this checkpoint.
  void restore(const Resume& resume);

  /// Collective. The steps that are left. False where the run was asked to stop and has done so, with a checkpoint.
  bool run();
  /// Collective. The test data, with the model that is kept. False where the run was asked to stop meanwhile and has
  /// done so.
  bool test();
  /// Collective. Timing table, totals.
  void finish();

 private:
  bool steps();
  bool step();  // true if it is the last one
  bool evaluate();
  bool asked_to_stop() const { return context_.world.any(checkpoints_.wants_stop()); }
  void account(const StepResult& result);
  /// Logs a skipped step. Throws AgreedError(numerical) where too many were skipped in a row.
  void report_skipped(const StepResult& result);
  /// Throws AgreedError(numerical) where every step was skipped: the model is untrained.
  void require_updates();
  std::string advice() const;
  /// Warns of a model that gives one answer: while it trains, of the second evaluation in a row, as the first ones are
  /// often such; and of the last one.
  void check_answers(const std::string& split, const Evaluator& evaluator, bool last);
  void record();
  /// One step; with BERT_HPC_COUNT_LAUNCHES=1 prints what one of the first asks of the device.
  StepResult train_on(const data::LoadedStep& loaded);
  Votes votes();
  void save(bool evaluation_due);
  TrainingState current_state(bool evaluation_due);
  void stop();
  void write_trace();
  const data::LoadedStep& next_step();
  double total_seconds() const { return seconds_before_ + context_.seconds(); }

  Session& session_;
  const RunContext& context_;
  Results& results_;
  Trainer trainer_;
  Checkpointer checkpoints_;
  ProgressDisplay display_;
  BestModel best_;
  StepTrace trace_;
  ProgressState progress_;
  RecentPace pace_;
  TrainingState state_;
  bool stopped_ = false, better_ = false;
  bool counts_calls_ = core::environment("BERT_HPC_COUNT_LAUNCHES") == "1";
  int one_answers_ = 0;  // evaluations in a row
  double noise_scale_ = 0;
  double begin_ = 0, row_begin_ = 0, seconds_before_ = 0;
  double evaluation_seconds_ = 0;         // of all evaluations since begin_
  std::int64_t evaluation_interval_ = 0;  // steps
  // Of this start of the run.
  std::int64_t first_step_ = 0, first_samples_ = 0, first_tokens_ = 0;
  double first_training_seconds_ = 0, first_flops_ = 0;
};

}  // namespace bert_hpc::app
