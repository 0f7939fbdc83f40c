// Table look-ups and their gradients. The gradient is summed per id over tokens in order (ids sorted beforehand by the
// loader), so it needs no atomics and its bits do not depend on threads.
#pragma once

#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

using core::Tensor;

/// y[t] = word[input_ids[t]] + position[position of t] + type[token_type_ids[t]]. word (vocabulary, hidden), position
/// (positions, hidden), type (types, hidden), y (tokens, hidden). Ids were checked when the shard was read.
void embedding_forward(const core::MicroBatch& batch, Tensor<const float> word, Tensor<const float> position,
                       Tensor<const float> type, Tensor<float> y);

/// d_word[id] += Σ d_y[t] over the tokens t of each id; d_position and d_type likewise. d_y (tokens, hidden).
void embedding_backward(const core::MicroBatch& batch, Tensor<const float> d_y, Tensor<float> d_word,
                        Tensor<float> d_position, Tensor<float> d_type);

}  // namespace bert_hpc::ops
