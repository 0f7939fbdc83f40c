// Loss of training steps. The pipeline owns it and calls it after each forward pass of the part with the head; it
// writes row losses and the gradient at the logits, with which the backward pass begins. A head that computes logits in
// parts does both in the backward pass (layers::Head::SavedActivations::in_parts).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "bert_hpc/core/batch_plan.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/model/stage.hpp"

namespace bert_hpc::train {

/// A training step, as its loss sees it.
struct LossStep {
  float scale = 1;                        ///< of the row losses in the gradient
  const core::BatchPlan* plan = nullptr;  ///< of the global batch; losses of micro-batches do not read it
  float sequence_weight = 1;              ///< of layers::LossSettings
  std::size_t first = 0;  ///< number, among this replica's micro-batches, of the one that is computed first
};

/// A micro-batch whose forward pass is done.
struct ForwardResult {
  int micro_batch = 0;  ///< in the order of computation
  model::Stage* stage = nullptr;
  int slot = 0;
};

class Loss {
 public:
  virtual ~Loss() = default;
  /// Before the first forward pass of a step.
  virtual void begin(const LossStep& step) = 0;
  /// After each forward pass of a first round over all micro-batches with sequences, which keeps nothing
  /// (PipelineSettings::looks_ahead): the outputs, before add() asks for their gradients.
  virtual void look(const ForwardResult& /*result*/, const layers::StepContext& /*context*/) {}
  /// After each forward pass of a micro-batch with sequences. Returns the micro-batches of the step that have got row
  /// losses and gradients by this call, or will have them after their backward pass; valid until the next call.
  virtual std::span<const ForwardResult> add(const ForwardResult& result, const layers::StepContext& context) = 0;
};

/// Settings of the head's loss. Each loss reads its own.
struct LossOptions {
  // Settings of cross entropies with classes (ops/weighted_cross_entropy.hpp).
  std::vector<float> class_weights{};  ///< (classes), their mean over the training sequences is 1; empty: none
  float label_smoothing = 0, focal_gamma = 0;
  ops::TextGroupLoss texts{};  ///< of the texts of a row
};

/// The head's loss, of each micro-batch by itself.
class MicroBatchLoss : public Loss {
 public:
  explicit MicroBatchLoss(const LossOptions& options);
  void begin(const LossStep& step) override;
  std::span<const ForwardResult> add(const ForwardResult& result, const layers::StepContext& context) override;

 private:
  core::Buffer<float> class_weights_;  // (classes); empty: none
  layers::LossSettings settings_;
  float scale_ = 1;
  ForwardResult result_;
};

}  // namespace bert_hpc::train
