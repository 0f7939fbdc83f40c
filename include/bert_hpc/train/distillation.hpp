// Loss of a student beside a teacher: (1 − share) · the task's loss + share · a loss between the outputs of both.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/layers/soft_losses.hpp"
#include "bert_hpc/train/loss.hpp"

namespace bert_hpc::train {

struct DistillationSettings {
  layers::SoftLossFunction loss = nullptr;
  ops::SoftTerms terms;
  float share = 0.5f;     ///< of the loss between the outputs, 0 to 1
  std::int64_t rows = 0;  ///< most rows that the head reads of a micro-batch
};

class DistillationLoss : public Loss {
 public:
  /// Returns the teacher's outputs (rows that the head reads, outputs) of a micro-batch, numbered in the order of
  /// computation. The loss overwrites them.
  using TeacherOutputs = std::function<core::Tensor<float>(int micro_batch)>;

  DistillationLoss(const LossOptions& options, const DistillationSettings& settings, TeacherOutputs teacher);
  void begin(const LossStep& step) override;
  std::span<const ForwardResult> add(const ForwardResult& result, const layers::StepContext& context) override;

 private:
  DistillationSettings settings_;
  TeacherOutputs teacher_;
  MicroBatchLoss task_loss_;
  core::Buffer<float> soft_losses_;  // (rows)
  float scale_ = 1;
};

}  // namespace bert_hpc::train
