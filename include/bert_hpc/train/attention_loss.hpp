// Loss between the attention scores of a student and those of a teacher that has computed the same micro-batches before
// (ops/attention_scores.hpp): an observer of the attention of both models. The teacher's queries and keys of a step are
// kept on the ranks with the student's, for the compared blocks alone; scores are computed from them when they are
// needed.
//
// The loss of a pair is a mean over the real tokens of the global batch and over the heads; pairs are added up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/layers/attention_observer.hpp"
#include "bert_hpc/ops/attention_scores.hpp"
#include "bert_hpc/train/observed_step.hpp"

namespace bert_hpc::train {

/// Blocks of the student and the teacher whose attention is compared.
struct AttentionPair {
  std::int64_t student = 0, teacher = 0;
  bool operator==(const AttentionPair&) const = default;
};

struct AttentionLossSettings {
  std::vector<AttentionPair> pairs;               ///< of the whole model
  std::vector<std::size_t> own;                   ///< indices of those whose attention is computed on this rank
  float share = 0.5f;                             ///< of the loss in a step's
  int micro_batches = 1;                          ///< most of this replica in a step
  std::int64_t rows = 0;                          ///< most token rows of a micro-batch
  std::int64_t heads = 0, columns = 0;            ///< of this rank's part of the teacher's queries
  core::DataType storage = core::DataType::fp32;  ///< of the student's activations
};

class AttentionLoss : public layers::AttentionObserver {
 public:
  /// Without `allocates` an estimate.
  AttentionLoss(const AttentionLossSettings& settings, bool allocates);
  AttentionLoss(const AttentionLoss&) = delete;
  AttentionLoss& operator=(const AttentionLoss&) = delete;

  std::int64_t bytes() const;  ///< on this rank
  std::int64_t pairs() const { return std::ssize(settings_.pairs); }
  layers::AttentionObserver& teacher() { return keeper_; }

  /// Before the student's passes; pointers of `step` must outlive them.
  void begin(const ObservedStep& step) { step_ = step; }
  void forward(const layers::ObservedAttention& attention, const layers::StepContext& context) override;
  void backward(const layers::ObservedAttention& attention, const layers::StepContext& context, const core::Matrix& d_q,
                const core::Matrix& d_k) override;

 private:
  /// Observer of the teacher.
  struct Keeper : layers::AttentionObserver {
    explicit Keeper(AttentionLoss& of) : loss(of) {}
    void forward(const layers::ObservedAttention& attention, const layers::StepContext& context) override;
    void backward(const layers::ObservedAttention&, const layers::StepContext&, const core::Matrix&,
                  const core::Matrix&) override {}
    AttentionLoss& loss;
  };

  std::int64_t kept_bytes() const;
  /// (rows, 2 · columns): the teacher's queries and keys of own pair number `own` in a pass.
  core::Matrix kept(std::size_t own, const layers::StepContext& context, std::int64_t rows) const;
  ops::ScorePair scores(std::size_t own, const layers::ObservedAttention& attention,
                        const layers::StepContext& context) const;

  AttentionLossSettings settings_;
  Keeper keeper_{*this};
  core::Buffer<std::byte> kept_;    // (own pairs, micro-batches, rows, 2 · columns)
  core::Buffer<float> row_losses_;  // (heads, rows)
  ObservedStep step_;
};

}  // namespace bert_hpc::train
