// From the input file to the settings of training, and the choice of the model to keep. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "bert_hpc/app/trainer.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::app {

TrainerSettings trainer_settings(const config::Config& input, std::int64_t total_steps);

/// How a data-parallel group shares out sums and states; `chunks` of a global batch.
train::ShardSettings shard_settings(const config::Config& input, std::int64_t chunks);

/// Steps from one evaluation to the next.
std::int64_t evaluation_steps(const config::Config& input, std::int64_t steps_per_epoch);

/// Which evaluation was the best so far, and how long ago.
class BestModel {
 public:
  explicit BestModel(const config::Evaluation& settings) : settings_(settings) {}

  /// Is this evaluation better than all before? Never where evaluation.best is not set.
  bool offer(const io::EvaluationRow& row);
  bool patience_is_over() const { return settings_.patience && evaluations_since_ >= *settings_.patience; }
  bool kept() const { return kept_; }
  std::int64_t step() const { return step_; }  ///< of the best evaluation

 private:
  const config::Evaluation& settings_;
  double best_ = 0;
  bool kept_ = false;
  std::int64_t step_ = 0;
  std::int64_t evaluations_since_ = 0;
};

}  // namespace bert_hpc::app
