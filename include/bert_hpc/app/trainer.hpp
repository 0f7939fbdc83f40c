// The step loop: loader → forward → loss → backward → sums over ranks → update. Everything a step needs is allocated
// before the first one.
#pragma once

#include <memory>
#include <vector>

#include "bert_hpc/app/assembly.hpp"
#include "bert_hpc/core/timers.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/train/data_parallel.hpp"
#include "bert_hpc/train/learning_rate.hpp"
#include "bert_hpc/train/optimizer.hpp"

namespace bert_hpc::app {

struct TrainerSettings {
  std::uint64_t seed = 1;
  double learning_rate = 0;
  train::AdamwSettings adamw;
  train::LearningRateSchedule schedule;
};

struct StepResult {
  double loss = 0;           ///< mean over the global batch's targets
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  std::int64_t samples = 0, tokens = 0;  ///< of the global batch
  double sum_of_squared_lengths = 0;
};

class Trainer {
 public:
  /// All must outlive the trainer.
  Trainer(const TrainerSettings& settings, Assembly& assembly, train::DataParallel& sums, comm::Communicator& group,
          core::Timers& timers);

  /// Collective over the group. Update number `done` + 1. Throws Error(numerical), on every rank alike, if loss or
  /// gradient norm is not finite; the parameters are then as before the step.
  StepResult step(const data::LoadedStep& loaded, std::int64_t done);

 private:
  /// This replica's micro-batches; their loss sums go to losses_.
  void compute(const data::LoadedStep& loaded, std::int64_t done, double targets);
  double global_targets(const data::LoadedStep& loaded);
  double global_loss(const data::LoadedStep& loaded, double targets);

  TrainerSettings settings_;
  Assembly& assembly_;
  train::DataParallel& sums_;
  comm::Communicator& group_;
  core::Timers& timers_;
  train::Adamw optimizer_;
  std::vector<double> losses_;  // (micro-batches of all replicas): sums of row losses, zero for those of others
};

}  // namespace bert_hpc::app
