// From the input file to the settings of training, and the choice of the model to keep. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "app/engine/trainer_settings.hpp"
#include "app/engine/training_state.hpp"
#include "app/run/run_context.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/batch_schedule.hpp"
#include "bert_hpc/io/metrics.hpp"
#include "bert_hpc/train/shard_plan.hpp"

namespace bert_hpc::app {

/// `sizes`: of the training's batches, which may grow; null: all are equal.
TrainerSettings trainer_settings(const config::Config& input, std::int64_t total_steps,
                                 const data::BatchSchedule* sizes = nullptr);

/// What its optimizer keeps.
std::vector<ops::StateTensor> optimizer_states(const config::Config& input);

/// How a data-parallel group shares out sums and states. `input` is resolved.
train::ShardSettings shard_settings(const config::Config& input);
/// The same with the messages of the ranks that the run is made for.
train::ShardSettings shard_settings(const RunContext& context);

/// The steps after which a training evaluates, beside the last one.
class EvaluationSteps {
 public:
  /// Both must outlive it.
  EvaluationSteps(const config::Evaluation& settings, const data::BatchSchedule& sizes)
      : settings_(settings), sizes_(sizes) {}

  bool due(std::int64_t done) const { return done > 0 && until(done) > until(done - 1); }
  /// Number of these evaluations in the first `done` steps.
  std::int64_t until(std::int64_t done) const;
  /// Number of evaluations from step `done` (included) to step `total` and at its end.
  std::int64_t left(std::int64_t done, std::int64_t total) const;

 private:
  const config::Evaluation& settings_;
  const data::BatchSchedule& sizes_;
};

/// Which evaluation was the best so far, and how long ago.
class BestModel {
 public:
  explicit BestModel(const config::Evaluation& settings) : settings_(settings) {}

  /// Whether this evaluation is better than all before. False if evaluation.best is not set.
  bool offer(const io::EvaluationRow& row);
  /// "accuracy" if evaluation.best names it and the evaluation has no number for it, which selects no model; else "".
  std::string undefined_metric(const io::EvaluationRow& row) const;
  bool patience_is_over() const { return settings_.patience && state_.evaluations_since >= *settings_.patience; }
  bool kept() const { return state_.kept; }
  std::int64_t step() const { return state_.step; }  ///< of the best evaluation

  const BestSoFar& state() const { return state_; }
  void restore(const BestSoFar& state) { state_ = state; }

 private:
  const config::Evaluation& settings_;
  BestSoFar state_;
};

}  // namespace bert_hpc::app
