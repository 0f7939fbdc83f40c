// Settings of the step loop (app/engine/trainer.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include "bert_hpc/train/distillation.hpp"
#include "bert_hpc/train/learning_rate.hpp"
#include "bert_hpc/train/loss_scale.hpp"
#include "bert_hpc/train/optimizer.hpp"
#include "bert_hpc/train/step_loss.hpp"

namespace bert_hpc::app {

struct TrainerSettings {
  std::uint64_t seed = 1;
  double learning_rate = 0;
  train::OptimizerSettings optimizer;
  train::LearningRateSchedule schedule;
  std::int64_t parameter_hash_every = 0;                 ///< steps; 0: never
  std::optional<train::LossScaleSettings> loss_scale{};  ///< none where gradients need no scaling
  std::int64_t rows = 0;                                 ///< most that the head reads of a micro-batch
  std::int64_t micro_batches = 0;                        ///< most of this replica in a step
  train::LossOptions loss{};
  std::optional<train::StepLossSettings> step_loss{};         ///< of a loss over a whole step, on ranks with the head
  std::optional<train::DistillationSettings> distillation{};  ///< of a training with a teacher
};

}  // namespace bert_hpc::app
