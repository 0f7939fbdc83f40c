// Losses and their gradients in one pass. `scale` is 1 / (targets in the global batch), so that accumulation over
// micro-batches and ranks is exact: loss of a step = Σ row losses · scale.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

using core::ConstMatrix;
using core::Matrix;
using core::Tensor;

/// Cross entropy of softmax(logits). logits (rows, classes), labels (rows); row_loss (rows) = −log p[label], not
/// scaled. d_logits = scale·(softmax − one_hot) where it has data, in the logits' type; it may be logits.
void cross_entropy(ConstMatrix logits, const std::int32_t* labels, float scale, float* row_loss, Matrix d_logits);

/// Cross entropy where ranks share out the classes: this one's logits (rows, some classes) are those of the classes
/// from `first` on. Three steps; the caller takes the maximum over ranks of `largest` (rows) after the first, and the
/// sum of `totals` (2, rows) after the second: of exponentials, and the label's logit less the largest.
void class_shard_maxima(Tensor<const float> logits, float* largest);
/// Where d_logits has data it holds exponentials afterwards; it may be logits.
void class_shard_totals(Tensor<const float> logits, std::int64_t first, const std::int32_t* labels,
                        const float* largest, Tensor<float> totals, Tensor<float> d_logits);
/// row_loss and d_logits as cross_entropy() leaves them.
void class_shard_cross_entropy(std::int64_t first, const std::int32_t* labels, float scale, Tensor<const float> totals,
                               float* row_loss, Tensor<float> d_logits);

/// Squared error (logits[r] − target[r])². logits (rows, 1); d_logits = scale·2·(logits − target) where it has data.
void squared_error(Tensor<const float> logits, const float* targets, float scale, float* row_loss,
                   Tensor<float> d_logits);

/// predicted[r] = index of the largest logit of row r, the first among equals.
void arg_max(ConstMatrix logits, std::int32_t* predicted);

/// Of a shard of the classes, whose first is `first`: place[r] = the first class of row r whose logit is largest[r],
/// the maximum over all shards, or infinity. The least over ranks is what arg_max() gives.
void class_shard_arg_max(Tensor<const float> logits, std::int64_t first, const float* largest, float* place);
/// y[i] = x[i], whole numbers below 2^24.
void to_integers(const float* x, std::int64_t count, std::int32_t* y);

/// *total = Σ x in double, in a fixed order; in device memory, as x is.
void sum(const float* x, std::int64_t count, double* total);

}  // namespace bert_hpc::ops
