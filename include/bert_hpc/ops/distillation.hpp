// Losses between the outputs of a student and those of a teacher (knowledge distillation; Hinton et al. 2015,
// arXiv:1503.02531), with their gradients. Each function takes the teacher's outputs and replaces them with the
// gradient of Σ row losses at the student's, so that a step needs no further memory. The student's outputs are of any
// type of activations; probabilities and sums are fp32.
#pragma once

#include <cstdint>

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

/// Weights of the terms of a distillation loss. With T = temperature and p(x) = softmax(x / T) or sigmoid(x / T):
struct SoftTerms {
  float divergence = 0;   ///< of T² · KL(p(teacher) ‖ p(student)); T² keeps the gradient's size (Hinton et al., 2)
  float squares = 0;      ///< of the mean squared difference of the outputs
  float margins = 0;      ///< of the mean squared difference of margins: soft_lists() alone
  float temperature = 1;  ///< above 0
};

/// One distribution a row: student, teacher (rows, classes). row_loss (rows), unscaled.
void soft_classes(const SoftTerms& terms, core::ConstMatrix student, core::Tensor<float> teacher, float* row_loss);

/// soft_classes() with the classes distributed over ranks: student and teacher (rows, some classes) are of this rank's.
/// There are three steps. Before the first, the caller computes class_shard_maxima() (ops/losses.hpp) of both, and
/// takes their maximum over ranks: maxima (2, rows), the student's and the teacher's. After it, the caller takes the
/// sum of `totals` (4, rows) over ranks.
void soft_class_shard_totals(const SoftTerms& terms, core::Tensor<const float> student,
                             core::Tensor<const float> teacher, core::Tensor<const float> maxima,
                             core::Tensor<float> totals);
/// `classes`: of all ranks. Writes row_loss, the same on each rank, and the gradient like soft_classes().
void soft_class_shards(const SoftTerms& terms, std::int64_t classes, core::Tensor<const float> student,
                       core::Tensor<float> teacher, core::Tensor<const float> maxima, core::Tensor<const float> totals,
                       float* row_loss);

/// A sigmoid for each output: student, teacher (rows, names). row_loss (rows) = the mean over names.
void soft_names(const SoftTerms& terms, core::ConstMatrix student, core::Tensor<float> teacher, float* row_loss);

/// Two distributions over the tokens of each sequence: student, teacher (rows, 2); rows of sequence b are [offsets[b],
/// offsets[b + 1]), of which the first lengths[b] count (null: all). row_loss (rows): the mean of both columns' losses
/// at a sequence's first row, 0 elsewhere. The gradient of padding is 0.
void soft_spans(const SoftTerms& terms, core::ConstMatrix student, const std::int32_t* offsets,
                const std::int32_t* lengths, std::int64_t sequences, core::Tensor<float> teacher, float* row_loss);

/// One distribution over the candidates of each query: student, teacher (rows, 1). lists (count, 2): rows [lists[2 q],
/// lists[2 q + 1]) of query q, ascending; relevant (rows): 1, else 0. row_loss (rows): a query's loss at its first row,
/// 0 elsewhere; rows of no query have no gradient. A margin is the score of a relevant candidate minus that of another
/// one (margin-MSE; Hofstätter et al. 2020, arXiv:2010.02666); a query without both has none.
void soft_lists(const SoftTerms& terms, core::ConstMatrix student, const std::int32_t* lists, std::int64_t count,
                const float* relevant, core::Tensor<float> teacher, float* row_loss);

/// y = logits. Both (rows, outputs).
void outputs_as_floats(core::ConstMatrix logits, core::Tensor<float> y);

/// y = the rows of `all` (samples, outputs) of a batch's samples: of row r sample[sequence[r]]. y (rows, outputs).
void outputs_of_samples(core::Tensor<const float> all, const std::int64_t* sample, const std::int32_t* sequence,
                        core::Tensor<float> y);

/// d_logits += factor · gradient. gradient, d_logits (rows, outputs).
void add_soft_gradient(float factor, core::Tensor<const float> gradient, core::Matrix d_logits);

/// loss = (1 − share) · loss + share · soft. Both (rows).
void mix_losses(float share, const float* soft, std::int64_t rows, float* loss);

}  // namespace bert_hpc::ops
