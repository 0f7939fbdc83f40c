// Layer normalisation (Ba, Kiros, Hinton 2016) over the columns of each row, y = γ·(z − mean)·rstd + β with
// rstd = 1/sqrt(variance + ε), fused with what precedes it in a post-norm transformer block: z = residual + dropout(x).
#pragma once

#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::ops {

/// z = residual + dropout(x + bias), y = layer_norm(z). x (rows, columns) holds z afterwards; bias (columns) or null; a
/// residual with null data counts as zero; mean and rstd (rows) are kept for backward. All matrices of one type; mean
/// and rstd are those of z as it is stored.
void residual_layer_norm_forward(const Dropout& dropout, const TokenRows& rows, Matrix x, const float* bias,
                                 ConstMatrix residual, const float* gamma, const float* beta, float epsilon, Matrix y,
                                 float* mean, float* rstd);

/// d_z from d_y, and d_x = dropout'(d_z) where d_x has data (a copy of d_z where nothing is dropped). All (rows,
/// columns). d_z may be d_y. All of one type; but d_z may be in float beside others of 16 bits.
void residual_layer_norm_backward(const Dropout& dropout, const TokenRows& rows, ConstMatrix d_y, ConstMatrix z,
                                  const float* gamma, const float* mean, const float* rstd, Matrix d_z, Matrix d_x);

/// The same of up to most_summed_columns columns, d_x with data and everything of one type, with sums over rows:
/// partial (norm_sum_blocks(rows, columns), 3·columns), for add_partial_sums(). They give what
/// layer_norm_backward_weight() gives for γ and β, and the column sums of d_x.
void residual_layer_norm_backward(const Dropout& dropout, const TokenRows& rows, ConstMatrix d_y, ConstMatrix z,
                                  const float* gamma, const float* mean, const float* rstd, Matrix d_z, Matrix d_x,
                                  Tensor<float> partial);
std::int64_t norm_sum_blocks(std::int64_t rows, std::int64_t columns);
inline constexpr std::int64_t most_summed_columns = 1024;

/// d_gamma = or += Σ d_y·(z − mean)·rstd and d_beta = or += Σ d_y over rows, in row order whatever the threads.
void layer_norm_backward_weight(ConstMatrix d_y, ConstMatrix z, const float* mean, const float* rstd, float* d_gamma,
                                float* d_beta, Write write);

}  // namespace bert_hpc::ops
