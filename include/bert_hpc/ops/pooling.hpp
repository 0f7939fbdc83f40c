// Sequence embeddings of token embeddings (Reimers and Gurevych, "Sentence-BERT", 2019, section 3).
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"

namespace bert_hpc::ops {

enum class Pooling { last, mean, max };

/// Row b of y: the last row of sequence b of x, or the mean or the maximum of its rows, column by column. x
/// (rows.count, columns); lengths (sequences) or null: real rows of each sequence, at least one, before its padding; y
/// (sequences, columns). Sums are in fp32, in the order of the rows.
void pool_rows(Pooling pooling, core::ConstMatrix x, const core::TokenRows& rows, const std::int32_t* lengths,
               core::Tensor<float> y);

}  // namespace bert_hpc::ops
