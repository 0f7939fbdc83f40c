// A loss over a whole step: of the outputs of all micro-batches of all replicas, as correlations and contrastive losses
// need. The pipeline runs all forward passes first (ScheduleKind::forwards_first). Then every rank with the head gets
// the outputs of all replicas and computes the loss and the gradient of its own, with which the backward passes begin.
//
// Rows are in the order of the step's batch plan. Where the plan does not depend on the layout, as in reproducible
// mode, neither do the bits of the loss. The head reads one row of each sequence, and its logits are floats.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/batch_plan.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/model/stage.hpp"

namespace bert_hpc::train {

struct StepLossSettings {
  layers::StepLossFunction loss = nullptr;
  std::int64_t rows = 0;     ///< most of a replica in a step
  std::int64_t outputs = 0;  ///< columns of the logits
  std::int64_t columns = 1;  ///< of targets.values
};

class StepLoss {
 public:
  /// `replicas`: the ranks with the same part of the model, one of each replica. It must outlive this object.
  StepLoss(const StepLossSettings& settings, comm::Communicator& replicas);

  /// Bytes that an object of these settings holds.
  static std::int64_t bytes(const StepLossSettings& settings, int replicas);

  /// A micro-batch whose forward pass is done.
  struct Part {
    int number = 0;  ///< the caller's
    model::Stage* stage = nullptr;
    int slot = 0;
    std::int64_t begin = 0, rows = 0;  ///< among this replica's rows
  };

  /// Before the forward passes of a step.
  void begin(const core::BatchPlan& plan);
  /// After each forward pass of a micro-batch with sequences, in any order. part.rows are the head's; `values`: its
  /// targets.
  void add(const Part& part, const float* values);
  /// Have all sequences of this replica been added?
  bool is_complete() const { return added_ == own_rows_; }
  /// Collective over the replicas, once is_complete(). Gives each part's slot its row losses and the gradient of the
  /// sum of all row losses · scale at its logits.
  void finish(float scale);

  std::span<const Part> parts() const { return parts_; }  ///< of this step

 private:
  std::int64_t block() const { return settings_.rows * (settings_.outputs + settings_.columns); }
  float* own_block() const { return gathered_.data() + block() * replicas_.rank(); }

  StepLossSettings settings_;
  comm::Communicator& replicas_;
  core::Buffer<float> gathered_;               // (replicas, rows · outputs then rows · columns)
  core::Buffer<float> logits_, values_;        // (rows of all replicas, outputs or columns); empty with one replica
  core::Buffer<float> row_losses_, d_logits_;  // (rows, 1 or outputs): this replica's
  std::vector<std::int64_t> rows_;             // (replicas): of this step
  std::vector<Part> parts_;
  std::int64_t own_rows_ = 0, added_ = 0;
};

}  // namespace bert_hpc::train
