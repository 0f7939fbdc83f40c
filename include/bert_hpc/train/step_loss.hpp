// A loss over a whole step: of the outputs of all micro-batches of all replicas, as correlations and contrastive losses
// need. The pipeline runs all forward passes first (ScheduleKind::forwards_first), or a round of them that keeps
// nothing (PipelineSettings::looks_ahead). Then every rank with the head gets the outputs of all replicas and computes
// the loss and the gradient of its own, with which the backward passes begin. Dropout, whose keys name step and sample,
// is the same in both rounds.
//
// Rows are in the order of the step's batch plan. Where the plan does not depend on the layout, as in reproducible
// mode, neither do the bits of the loss. The head has one row of outputs for each sequence, and its logits are floats.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/train/loss.hpp"

namespace bert_hpc::train {

struct StepLossSettings {
  layers::StepLossKind loss{};
  std::int64_t rows = 0;     ///< most of a replica in a step
  std::int64_t outputs = 0;  ///< columns of the logits
};

class StepLoss : public Loss {
 public:
  /// `replicas`: the ranks with the same part of the model, one of each replica. It must outlive this object.
  StepLoss(const StepLossSettings& settings, comm::Communicator& replicas);

  /// Bytes that an object of these settings holds.
  static std::int64_t bytes(const StepLossSettings& settings, int replicas);

  /// Collective over the replicas on a rank without sequences: it waits until the others have all of theirs.
  void begin(const LossStep& step) override;
  /// Micro-batches may come in any order. Collective over the replicas on the last one.
  void look(const ForwardResult& result, const layers::StepContext& context) override;
  /// The same; the last one returns all. After look() each one returns itself.
  std::span<const ForwardResult> add(const ForwardResult& result, const layers::StepContext& context) override;

 private:
  /// A micro-batch and its rows among those of this replica.
  struct Rows {
    std::int64_t begin = 0, count = 0;
  };
  std::int64_t block() const { return settings_.rows * (settings_.outputs + settings_.loss.columns); }
  float* own_block() const { return gathered_.data() + block() * replicas_.rank(); }
  std::int64_t begin_of(int micro_batch) const;
  /// The micro-batch's rows among this replica's.
  Rows rows_of(const ForwardResult& result, const layers::StepContext& context) const;
  /// Takes a micro-batch's outputs. Whether all of this replica are there.
  bool collect(const ForwardResult& result, const layers::StepContext& context);
  /// Gathers all outputs; computes the row losses and gradients of this replica's rows.
  void compute();
  /// Gives a result's slot its row losses and gradients.
  void give(const ForwardResult& result, const Rows& rows);

  StepLossSettings settings_;
  comm::Communicator& replicas_;
  core::Buffer<float> gathered_;               // (replicas, rows · outputs then rows · columns)
  core::Buffer<float> logits_, values_;        // (rows of all replicas, outputs or columns); empty with one replica
  core::Buffer<float> scratch_;                // (StepLossKind::scratch of the rows of all replicas)
  core::Buffer<float> row_losses_, d_logits_;  // (rows, 1 or outputs): this replica's
  std::vector<std::int64_t> rows_;             // (replicas): of this step
  LossStep step_;
  std::vector<ForwardResult> results_;
  std::vector<Rows> rows_of_results_;
  std::int64_t own_rows_ = 0, added_ = 0;
  bool computed_ = false;  // row losses and gradients of this step
};

/// A training's loss: over a whole step if `step` is set, otherwise the head's of each micro-batch.
std::unique_ptr<Loss> make_loss(const LossOptions& options, const std::optional<StepLossSettings>& step,
                                comm::Communicator& replicas);

}  // namespace bert_hpc::train
