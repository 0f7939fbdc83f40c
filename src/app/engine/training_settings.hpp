// From the input file to the settings of training, and the choice of the model to keep. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "app/engine/trainer_settings.hpp"
#include "app/engine/training_state.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/io/metrics.hpp"
#include "bert_hpc/train/shard_plan.hpp"

namespace bert_hpc::app {

TrainerSettings trainer_settings(const config::Config& input, std::int64_t total_steps);

/// What its optimizer keeps.
std::vector<ops::StateTensor> optimizer_states(const config::Config& input);

/// How a data-parallel group shares out sums and states. `input` is resolved.
train::ShardSettings shard_settings(const config::Config& input);

/// Steps from one evaluation to the next.
std::int64_t evaluation_steps(const config::Config& input, std::int64_t steps_per_epoch);

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
