// Sequence embeddings of token embeddings (Reimers and Gurevych, "Sentence-BERT", 2019, section 3), and their
// gradients.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"

namespace bert_hpc::ops {

/// first: of each sequence's rows, as BERT's [CLS]. ends: the first half of the last row's columns and the second half
/// of the first row's, in which a forward and a backward recurrence end.
enum class Pooling { first, last, mean, max, ends };

/// Row b of y: the first or the last row of sequence b of x, the mean or the maximum of its rows, column by column, or
/// its ends. x (rows.count, columns); lengths (sequences) or null: real rows of each sequence, at least one, before its
/// padding; y (sequences, columns), of floats or of x's type. Sums are in fp32, in the order of the rows. winners
/// (sequences, columns), if it has data and of maxima alone: the row of each maximum, the first among equals.
void pool_rows(Pooling pooling, core::ConstMatrix x, const core::TokenRows& rows, const std::int32_t* lengths,
               core::Matrix y, core::Tensor<std::int32_t> winners = {});

/// d_x (rows.count, columns) is replaced, by zeros in rows of padding. d_y (sequences, columns), of d_x's type; winners
/// as pool_rows() has left them, read for maxima alone. d_x, and the rows' sequences, may be those of the tokens from
/// `first_row` on.
void pool_rows_backward(Pooling pooling, core::Tensor<const std::int32_t> winners, const core::TokenRows& rows,
                        const std::int32_t* lengths, core::ConstMatrix d_y, core::Matrix d_x,
                        std::int64_t first_row = 0);

}  // namespace bert_hpc::ops
