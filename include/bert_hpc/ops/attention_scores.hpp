// Loss between the attention scores of a student and those of a teacher (knowledge distillation; Jiao et al. 2020,
// "TinyBERT", arXiv:1909.10351, equation 7), with its gradient. Scores are q·k / √head_dim before the softmax, as in
// the paper, without a position bias. They are computed from queries and keys, one row at a time, and never stored.
//
// The loss of a row and a head is the mean squared difference of the scores of its query with all keys that it attends
// to: those real tokens of its sequence that the mask shows to it. Rows of padding have none.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/ops/attention.hpp"

namespace bert_hpc::ops {

/// Queries and keys of all tokens, in one type of elements, of as many heads in both models. Of the student's inputs
/// v and dropout are not read. The teacher's heads may have another number of columns.
struct ScorePair {
  const AttentionInputs& student;
  ConstMatrix teacher_q, teacher_k;  ///< (tokens, heads · columns of its heads)
};

/// row_loss (heads, tokens) = weight · loss.
void score_loss(const ScorePair& pair, float weight, Tensor<float> row_loss);

/// Adds factor times the gradients of Σ row losses at the student's queries and keys to d_q and d_k, shaped as these.
void add_score_gradient(const ScorePair& pair, float factor, const Matrix& d_q, const Matrix& d_k);

}  // namespace bert_hpc::ops
