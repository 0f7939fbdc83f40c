// Loss between hidden states of a student and those of a teacher that has computed the same micro-batches before: an
// observer of both models' residual streams (layers/stream_observer.hpp). The teacher's states of a step are kept on
// the ranks with the student's, for its pairs alone; the forward pass of the student replaces them with the gradient
// at its own, which its backward pass adds to the stream's.
//
// The loss of a pair is a mean over the real tokens of the global batch; pairs are added up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/layers/stream_observer.hpp"
#include "bert_hpc/layers/tensor_group.hpp"
#include "bert_hpc/ops/hidden_states.hpp"
#include "bert_hpc/train/observed_step.hpp"

namespace bert_hpc::train {

/// States at an edge of the student's stream and at one of the teacher's.
struct StatePair {
  std::int64_t student = 0, teacher = 0;
  ops::StateTerms terms;
  bool operator==(const StatePair&) const = default;
};

struct HiddenLossSettings {
  std::vector<StatePair> pairs;                   ///< of the whole model
  std::vector<std::size_t> own;                   ///< numbers of those whose states are computed on this rank
  float share = 0.5f;                             ///< of the loss in a step's
  int micro_batches = 1;                          ///< most of this replica in a step
  std::int64_t rows = 0;                          ///< most token rows of a micro-batch, on all tensor ranks
  std::int64_t columns = 0;                       ///< of the teacher's states
  std::int64_t projected = 0;                     ///< columns of the student's, if these are projected; else 0
  core::DataType storage = core::DataType::fp32;  ///< of the student's activations
};

class HiddenLoss : public layers::StreamObserver {
 public:
  /// Without `allocates` an estimate.
  HiddenLoss(const HiddenLossSettings& settings, const layers::TensorGroup& group, bool allocates);
  HiddenLoss(const HiddenLoss&) = delete;
  HiddenLoss& operator=(const HiddenLoss&) = delete;

  std::int64_t bytes() const;  ///< on this rank
  std::int64_t pairs() const { return std::ssize(settings_.pairs); }
  layers::StreamObserver& teacher() { return keeper_; }

  /// Before the student's passes; both pointers of `step` must outlive them.
  void begin(const ObservedStep& step) { step_ = step; }
  void forward(const layers::StreamEdge& edge, const layers::StepContext& context, core::ConstMatrix state) override;
  void backward(const layers::StreamEdge& edge, const layers::StepContext& context, core::Matrix d_state) override;

 private:
  /// Observer of the teacher.
  struct Keeper : layers::StreamObserver {
    explicit Keeper(HiddenLoss& of) : loss(of) {}
    void forward(const layers::StreamEdge& edge, const layers::StepContext& context, core::ConstMatrix state) override;
    void backward(const layers::StreamEdge&, const layers::StepContext&, core::Matrix) override {}
    HiddenLoss& loss;
  };

  std::int64_t capacity() const { return group_.capacity(settings_.rows); }
  std::int64_t projection_bytes() const;
  /// Bytes of states of all own pairs in a step.
  std::int64_t bytes_of(std::int64_t columns) const;
  /// States of own pair number `own` and a pass, of `rows` rows here, in memory of bytes_of(columns).
  core::Matrix at(const core::Buffer<std::byte>& memory, std::int64_t columns, std::size_t own,
                  const layers::StepContext& context, std::int64_t rows) const;
  core::Matrix kept(std::size_t own, const layers::StepContext& context, std::int64_t rows) const {
    return at(kept_, settings_.columns, own, context, rows);
  }
  /// The student's state, which its gradient may replace in the model's memory.
  core::Matrix copied(std::size_t own, const layers::StepContext& context, std::int64_t rows) const {
    return at(copied_, settings_.projected, own, context, rows);
  }

  HiddenLossSettings settings_;
  layers::TensorGroup group_;
  Keeper keeper_{*this};
  core::Buffer<std::byte> kept_;         // (own pairs, micro-batches, capacity, columns)
  core::Buffer<std::byte> copied_;       // (own pairs, micro-batches, capacity, projected)
  core::Buffer<std::byte> projections_;  // (capacity, columns), if states are projected
  core::Buffer<float> row_losses_;       // (capacity)
  ObservedStep step_;
};

}  // namespace bert_hpc::train
