// Losses and their gradients in one pass. `scale` is 1 / (targets in the global batch), so that accumulation over
// micro-batches and ranks is exact: loss of a step = Σ row losses · scale.
#pragma once

#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

using core::Tensor;

/// Cross entropy of softmax(logits). logits (rows, classes), labels (rows); row_loss (rows) = −log p[label], not
/// scaled. d_logits = scale·(softmax − one_hot) where it has data; it may be logits.
void cross_entropy(Tensor<const float> logits, const std::int32_t* labels, float scale, float* row_loss,
                   Tensor<float> d_logits);

/// Squared error (logits[r] − target[r])². logits (rows, 1); d_logits = scale·2·(logits − target) where it has data.
void squared_error(Tensor<const float> logits, const float* targets, float scale, float* row_loss,
                   Tensor<float> d_logits);

/// predicted[r] = index of the largest logit of row r, the first among equals.
void arg_max(Tensor<const float> logits, std::int32_t* predicted);

/// Σ x in double, in a fixed order.
double sum(const float* x, std::int64_t count);

}  // namespace bert_hpc::ops
