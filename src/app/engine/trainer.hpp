// The step loop: loader → pipeline (forward, loss, backward) → sums over replicas → update. Everything a step needs is
// allocated before the first one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/engine/model_instance.hpp"
#include "app/engine/teacher.hpp"
#include "app/engine/teacher_scores.hpp"
#include "app/engine/trainer_settings.hpp"
#include "app/engine/training_state.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/timers.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/train/data_parallel.hpp"
#include "bert_hpc/train/efficiency.hpp"
#include "bert_hpc/train/loss_scale.hpp"
#include "bert_hpc/train/optimizer.hpp"
#include "bert_hpc/train/parameter_hash.hpp"
#include "bert_hpc/train/shared_gradients.hpp"
#include "bert_hpc/train/tied_gradients.hpp"

namespace bert_hpc::app {

/// What ranks exchange with a step's losses, summed over all of them, so that agreement needs no message of its own.
struct StepFlags {
  double stop = 0;        ///< asked to stop
  double checkpoint = 0;  ///< asked for a checkpoint
  double written = 0;     ///< has ended its part of the checkpoint under way, or failed to
  double failed = 0;      ///< has failed to
  double lost = 0;        ///< the lock of the run's directory is another's
};

/// What a step calls on its way.
struct StepHooks {
  std::function<StepFlags()> flags;     ///< before the last all-reduce; none: no flags
  std::function<void()> before_update;  ///< until it returns, parameters and states are those of the step before
};

struct StepResult {
  double loss = 0;           ///< mean over the global batch's targets
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  std::int64_t samples = 0, tokens = 0;  ///< of the global batch, without padding
  std::int64_t computed_tokens = 0;      ///< with padding
  double targets = 0;                    ///< of the global batch: what its loss is a mean over
  double sum_of_squared_lengths = 0;
  double noise_scale = 0;   ///< of the gradient so far, in sequences; NaN if unknown
  bool skipped = false;     ///< loss or gradient norm is not finite: parameters and states are as before
  bool backed_off = false;  ///< if skipped: the loss scale was the likely reason, and is smaller now
  /// If skipped: the samples whose losses are not finite, ascending, or all samples of the batch if only the gradient
  /// is not finite.
  std::vector<std::int64_t> bad_samples;
  StepFlags flags;  ///< of all ranks
};

class Trainer : private train::PipelineEvents {
 public:
  /// All must outlive the trainer; the model is connected, and `reducer` is of its segments. A training with
  /// distillation has a teacher, connected, or its scores, loaded; otherwise both are null.
  Trainer(const TrainerSettings& settings, ModelInstance& model, train::DataParallel& reducer, core::Timers& timers,
          Teacher* teacher = nullptr, TeacherScores* scores = nullptr);

  /// Collective over all ranks. Step number `done` + 1. Nothing is updated if loss or gradient norm is not finite:
  /// see StepResult::skipped. Throws Error(numerical), on every rank, if a parameter has changed by itself.
  StepResult step(const data::LoadedStep& loaded, std::int64_t done, const StepHooks& hooks = {});

  /// What a checkpoint keeps beside the parameters. After its states were set from elsewhere, as the parameters were:
  /// optimizer().parameters_changed().
  train::Optimizer& optimizer() { return optimizer_; }
  train::NoiseScale& noise() { return noise_; }
  SkippedSteps& skipped() { return skipped_; }
  /// Updates of the optimizer's states before the training's first step: bias corrections count them.
  void set_earlier_updates(std::int64_t count) { earlier_updates_ = count; }
  train::LossScale& loss_scale() { return scale_; }
  /// Collective over all ranks. Statistics of FP8's operands on all ranks, on rank 0; empty without FP8.
  std::string fp8_magnitudes() const;
  /// Collective over all ranks. Throws AgreedError(files) if it does not have this rank's layers.
  void restore_fp8(const std::string& magnitudes);

 private:
  /// Keeps the row losses and adds them up.
  void result(int micro_batch, model::Stage& stage, int slot) override;
  void finished(int virtual_stage, std::int64_t begin) override { reducer_.finished(virtual_stage, begin); }
  void end_micro_batch(int virtual_stage) override { reducer_.end_micro_batch(virtual_stage); }

  /// Number of the update of step `done` + 1, from 1.
  std::int64_t update_number(std::int64_t done) const { return earlier_updates_ + done + 1 - skipped_.total; }
  float loss_scale_of_step() const { return static_cast<float>(scale_.scale() / targets_); }
  /// Makes the passes of this replica's micro-batches, from number first_ on.
  void prepare(const data::LoadedStep& loaded, std::int64_t done);
  /// Sets up the sums over the uses of tied and of shared parameters.
  void complete_sums();
  /// The number among this replica's micro-batches of the one that is computed as number `i`.
  std::size_t rotated(std::size_t i) const { return (first_ + i) % own_; }
  double global_targets(const data::LoadedStep& loaded);
  /// Throws AgreedError(numerical) unless `finding` is empty.
  void require_intact(const std::string& finding) const;
  void measure_noise(const data::LoadedStep& loaded, double norm);
  /// Loss and gradient norm, over all ranks; sums `flags` too. Waits for the kernels.
  void agree(const data::LoadedStep& loaded, StepResult& result);
  /// Collective. Completes a step whose loss is not finite.
  std::vector<std::int64_t> samples_without_loss(const data::LoadedStep& loaded);
  /// Collective. StepResult::bad_samples of a skipped step.
  std::vector<std::int64_t> bad_samples(const data::LoadedStep& loaded, double loss);
  /// One rank alone launches the update before it knows loss and norm.
  bool updates_at_once() const {
    return reducer_.norm().is_alone() && optimizer_.steps_on_device() && !model_.kernels.fp8;
  }
  /// Number of losses that a step adds up: of each micro-batch, and of each with each pair that the teacher compares.
  std::size_t losses_of(const data::LoadedStep& loaded) const;
  void update_at_once(double learning_rate, std::int64_t done, std::size_t losses);
  /// Updates unless the update has been launched or `result` is a skipped step.
  void update(const StepResult& result, std::int64_t done);

  TrainerSettings settings_;
  ModelInstance& model_;
  train::DataParallel& reducer_;
  core::Timers& timers_;
  Teacher* teacher_;       // null without one
  TeacherScores* scores_;  // likewise
  train::Optimizer optimizer_;
  std::optional<train::TiedGradients> tied_;
  std::optional<train::SharedGradients> shared_;
  train::ParameterHash hash_;
  train::NoiseScale noise_;
  /// (micro-batches of all replicas, the teacher's pairs · micro-batches, flags): sums of row losses, zero for those
  /// of others.
  core::MirroredArray<double> losses_;
  SkippedSteps skipped_;
  std::int64_t earlier_updates_ = 0;
  train::LossScale scale_;
  core::Buffer<float>
      row_losses_;  // (micro-batches of this replica, rows): kept so that non-finite samples can be reported
  std::vector<std::int64_t> row_counts_;  // (micro-batches of this replica): 0 on ranks without the head
  // The step under way.
  std::vector<layers::StepContext> passes_;
  std::vector<std::int64_t> positions_;  // of the passes, among the micro-batches of all replicas
  core::MicroBatch empty_;
  std::int64_t first_index_ = 0;  // of this replica's micro-batches, among all
  std::size_t own_ = 0;           // micro-batches of this replica
  std::size_t first_ = 0;         // the one that is computed first
  double targets_ = 1;
};

}  // namespace bert_hpc::app
