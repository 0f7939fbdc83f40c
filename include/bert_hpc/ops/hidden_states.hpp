// Losses between hidden states of a student and those of a teacher (knowledge distillation), with their gradients. All
// matrices of a call have the same type; sums are fp32.
//
// squares: the mean squared difference over the columns, as torch.nn.MSELoss in TinyBERT (Jiao et al. 2020,
// arXiv:1909.10351; task_distill.py of huawei-noah/Pretrained-Language-Model, whose mean counts padding too). cosine:
// 1 − cos(student, teacher), as torch.nn.CosineEmbeddingLoss of targets 1 in DistilBERT (Sanh et al. 2019,
// arXiv:1910.01108; distiller.py of Transformers' research_projects/distillation, which leaves out padding).
#pragma once

#include <cstdint>

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"

namespace bert_hpc::ops {

/// Weights of the terms of a loss.
struct StateTerms {
  float squares = 0, cosine = 0;
  bool operator==(const StateTerms&) const = default;
};

/// student, teacher (rows, columns): of the token rows `rows`, whose sequences have `lengths` real tokens (null: all).
/// row_loss (rows) = weight · loss, 0 for padding. The gradient of loss · columns at the student replaces the teacher;
/// without the factor a 16-bit type would lose small ones.
void state_loss(const StateTerms& terms, float weight, core::ConstMatrix student, const core::TokenRows& rows,
                const std::int32_t* lengths, core::Matrix teacher, float* row_loss);

/// d_state += factor · gradient. Shapes equal.
void add_state_gradient(float factor, core::ConstMatrix gradient, core::Matrix d_state);

}  // namespace bert_hpc::ops
