// Table look-ups and their gradients. The gradient is summed per id over tokens in order (ids sorted beforehand by the
// loader), so it needs no atomics and its bits do not depend on threads.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"

namespace bert_hpc::ops {

using core::ConstMatrix;
using core::Matrix;
using core::Tensor;

/// y[t] = word[input_ids[t]] + position[position of t] + type[token_type_ids[t]]. word (vocabulary, hidden), position
/// (positions, hidden), type (types, hidden), y (tokens, hidden). Ids were checked when the shard was read. A
/// `type` of one row is every token's, whatever its type. Of a table without rows, `position` or `type`, nothing is
/// added.
void embedding_forward(const core::MicroBatch& batch, Tensor<const float> word, Tensor<const float> position,
                       Tensor<const float> type, Matrix y);

/// The same in two steps, where ranks share out the rows of `word` and this one has those from `first` on: y[t] =
/// word's row of input_ids[t], or zeros if it is another rank's. y (tokens, hidden).
void word_embedding_forward(const core::MicroBatch& batch, Tensor<const float> word, std::int64_t first, Matrix y);
/// y += position[position of t] + type[type of t] for the tokens t = begin, begin + 1, …; y (some tokens, hidden).
void add_position_and_type(const core::MicroBatch& batch, std::int64_t begin, Tensor<const float> position,
                           Tensor<const float> type, Matrix y);

/// d_word[id] += Σ d_y[t] over the tokens t of each id; d_position and d_type likewise. d_y (tokens, hidden).
/// d_word's rows are those of the ids from `first` on; other ids are left out. A gradient without rows is not wanted.
void embedding_backward(const core::MicroBatch& batch, ConstMatrix d_y, Tensor<float> d_word, Tensor<float> d_position,
                        Tensor<float> d_type, std::int64_t first = 0);

}  // namespace bert_hpc::ops
