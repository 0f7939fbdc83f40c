// Checks of a training while it runs: warnings and errors about skipped steps, warnings about models that predict one
// answer.
#pragma once

#include <string>

#include "app/engine/evaluator.hpp"
#include "app/engine/trainer.hpp"
#include "app/session.hpp"

namespace bert_hpc::app {

class TrainingHealth {
 public:
  /// Both must outlive it.
  TrainingHealth(const Session& session, const RunBasics& run) : session_(session), run_(run) {}

  /// Were so many steps skipped in a row that the training ends?
  bool ends(const SkippedSteps& skipped) const { return skipped.in_a_row > max_skipped(); }
  /// Logs step `done`, which was skipped; `loss_scale`: after it. Throws AgreedError(numerical) where ends().
  void report_skipped(const StepResult& result, const SkippedSteps& skipped, double loss_scale,
                      std::int64_t done) const;
  /// Throws AgreedError(numerical) if all of `done` steps were skipped: the model is untrained.
  void require_updates(const SkippedSteps& skipped, std::int64_t done) const;

  /// After each evaluation. Warns of a model that predicts one answer in the second evaluation in a row, because the
  /// first ones often do, and in the last one.
  void check_answers(const std::string& split, const Evaluator& evaluator, bool last, std::int64_t done);
  /// After the best model, of step `done`, was evaluated again: the same warning, unless the last evaluation had it.
  void check_best(const std::string& split, const Evaluator& evaluator, std::int64_t done);

 private:
  std::int64_t max_skipped() const { return run_.input.optimizer.max_skipped_steps; }
  std::string advice() const;

  const Session& session_;
  const RunBasics& run_;
  int one_answers_ = 0;  // evaluations in a row
};

}  // namespace bert_hpc::app
