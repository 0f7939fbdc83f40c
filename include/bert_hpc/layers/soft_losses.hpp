// Losses between a student's outputs and a teacher's, one for each meaning of the outputs (ops/distillation.hpp).
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/ops/distillation.hpp"

namespace bert_hpc::layers {

/// A micro-batch whose forward pass is done in both models.
struct SoftLossInput {
  const core::MicroBatch& batch;
  const ops::SoftTerms& terms;
  core::ConstMatrix student;    ///< (rows that the head reads, outputs)
  core::Tensor<float> teacher;  ///< as many; the gradient of Σ row losses at the student's outputs replaces them
  float* row_losses;            ///< (rows): written
  const VocabularyShare* share = nullptr;  ///< null: one rank has all outputs
};

using SoftLossFunction = void (*)(const SoftLossInput& input);

/// A distribution for each row. Collective over the tensor group if outputs are shared out.
void soft_class_loss(const SoftLossInput& input);
/// A sigmoid for each output of each row; one distribution for each query if the batch has ListTargets.
void soft_name_loss(const SoftLossInput& input);
/// Two distributions for each sequence: of its answer's first and last token.
void soft_span_loss(const SoftLossInput& input);

}  // namespace bert_hpc::layers
