// Losses and their gradients in one pass. `scale` is 1 / (targets in the global batch), so accumulation over
// micro-batches and ranks is exact: loss of a step = Σ row losses · scale.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

using core::ConstMatrix;
using core::Matrix;
using core::Tensor;

/// Cross entropy of softmax(logits). logits (rows, classes), labels (rows); row_loss (rows) = −log p[label], unscaled.
/// If d_logits has data, d_logits = scale·(softmax − one_hot), in the logits' type; it may be logits.
void cross_entropy(ConstMatrix logits, const std::int32_t* labels, float scale, float* row_loss, Matrix d_logits);

/// Cross entropy with the classes distributed over ranks: logits (rows, some classes) of this rank are those of the
/// classes from `first` on. There are three steps. After the first, the caller takes the maximum of `largest` (rows)
/// over ranks. After the second, it takes the sum of `totals` (2, rows) over ranks: the sum of exponentials, and the
/// label's logit minus the largest.
void class_shard_maxima(Tensor<const float> logits, float* largest);
/// If d_logits has data, it receives the exponentials; it may be logits.
void class_shard_totals(Tensor<const float> logits, std::int64_t first, const std::int32_t* labels,
                        const float* largest, Tensor<float> totals, Tensor<float> d_logits);
/// Computes row_loss and d_logits like cross_entropy().
void class_shard_cross_entropy(std::int64_t first, const std::int32_t* labels, float scale, Tensor<const float> totals,
                               float* row_loss, Tensor<float> d_logits);

/// Squared error: row_loss[r] = Σ_j (logits[r, j] − targets[r, j])² over the targets that are known, i.e. not NaN.
/// logits (rows, columns), targets (rows, columns), contiguous. d_logits = scale·2·(logits − targets), 0 if the target
/// is unknown, if it has data; it may be logits.
void squared_error(Tensor<const float> logits, const float* targets, float scale, float* row_loss,
                   Tensor<float> d_logits);

/// Squared error of a sigmoid (σ(logits[r]) − target[r])². logits (rows, 1); d_logits = scale·2·(σ − target)·σ·(1 − σ)
/// if it has data.
void sigmoid_squared_error(Tensor<const float> logits, const float* targets, float scale, float* row_loss,
                           Tensor<float> d_logits);

/// predicted[r] = index of the largest logit of row r, the first one among equals.
void arg_max(ConstMatrix logits, std::int32_t* predicted);

/// probability[r] = the largest of softmax(logits of row r); NaN if a logit is NaN.
void largest_probability(ConstMatrix logits, float* probability);

/// For a shard of the classes that begins at class `first`: index[r] = the first class of row r whose logit equals
/// largest[r], the maximum over all shards, or infinity if there is none. The minimum over ranks is the result of
/// arg_max().
void class_shard_arg_max(Tensor<const float> logits, std::int64_t first, const float* largest, float* index);
/// y[i] = x[i]; x holds integers below 2^24.
void to_integers(const float* x, std::int64_t count, std::int32_t* y);

/// *total = Σ x in double, in a fixed order. x and total are in device memory.
void sum(const float* x, std::int64_t count, double* total);

}  // namespace bert_hpc::ops
