// The loss of label sets and its gradient in one pass. `scale` as in ops/losses.hpp.
#pragma once

#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

/// Binary cross entropy of sigmoid(logits). logits (rows, names); targets (rows, names), contiguous, 1 for each name in
/// a row's set and 0 for the others; row_loss (rows) = the mean over names of max(x, 0) − x·y +
/// log(1 + exp(−|x|)), unscaled, which is −y·log σ(x) − (1 − y)·log(1 − σ(x)) without overflow. If d_logits has data,
/// d_logits = scale / names·(σ(logits) − targets); it may be logits. The mean over rows is the loss of Transformers'
/// multi_label_classification (torch.nn.BCEWithLogitsLoss).
void binary_cross_entropy(core::Tensor<const float> logits, const float* targets, float scale, float* row_loss,
                          core::Tensor<float> d_logits);

}  // namespace bert_hpc::ops
