// Cross entropy of a span's first and last token among the tokens of its sequence, and its gradient in one pass.
#pragma once

#include <cstdint>

#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

/// logits (rows, 2): scores of each token as a span's first (column 0) and last token (column 1). Rows of sequence b
/// are [offsets[b], offsets[b + 1]), at least one, of which the first lengths[b] are real tokens (lengths null: all);
/// spans (sequences, 2) holds the indices of its first and last token among them. With p = softmax of a column over a
/// sequence's real rows, the loss of a sequence is −(log p_first + log p_last) / 2, as in Transformers' models for
/// question answering. row_loss (rows), unscaled: its two terms at their rows, 0 elsewhere. If d_logits has data,
/// d_logits = scale · the gradient of Σ row_loss at the logits; it may be logits.
void span_cross_entropy(core::Tensor<const float> logits, const std::int32_t* offsets, const std::int32_t* lengths,
                        std::int64_t sequences, const std::int32_t* spans, float scale, float* row_loss,
                        core::Tensor<float> d_logits);

}  // namespace bert_hpc::ops
