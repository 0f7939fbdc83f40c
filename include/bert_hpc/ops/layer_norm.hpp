// Layer normalisation (Ba, Kiros, Hinton 2016) over the columns of each row, y = γ·(z − mean)·rstd + β with rstd =
// 1/sqrt(variance + ε), fused with the preceding operations of a post-norm transformer block: z = residual +
// dropout(x). A null mean makes it an RMS norm (Zhang and Sennrich 2019): 0 replaces the mean, so that the
// variance is the mean square.
#pragma once

#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::ops {

/// z = residual + dropout(x + bias), y = layer_norm(z). On return x (rows, columns) holds z. bias and β (columns) or
/// null; a residual with null data counts as zero. mean and rstd (rows), of z as stored, are saved for backward; mean
/// may be null. All matrices have the same type.
void residual_layer_norm_forward(const Dropout& dropout, const TokenRows& rows, Matrix x, const float* bias,
                                 ConstMatrix residual, const float* gamma, const float* beta, float epsilon, Matrix y,
                                 float* mean, float* rstd);

/// Computes d_z from d_y, plus `more` if it has data: what the residual stream of a pre-norm model adds to the gradient
/// of z. d_x = dropout'(d_z) if d_x has data (a copy of d_z without dropout). All (rows, columns); d_z may be d_y but
/// not `more`. All matrices have the same type, except that d_z may be float if the others have 16 bits.
void residual_layer_norm_backward(const Dropout& dropout, const TokenRows& rows, ConstMatrix d_y, ConstMatrix z,
                                  const float* gamma, const float* mean, const float* rstd, Matrix d_z, Matrix d_x,
                                  ConstMatrix more = {});

/// As above, and also sums over rows: partial (norm_sum_blocks(rows), 3·columns), for add_column_sums(): sums
/// that equal the results of layer_norm_backward_weight() for γ and β and the column sums of d_x. At most
/// max_summed_columns columns; d_x has data; all matrices have the same type.
void residual_layer_norm_backward_sums(const Dropout& dropout, const TokenRows& rows, ConstMatrix d_y, ConstMatrix z,
                                       const float* gamma, const float* mean, const float* rstd, Matrix d_z, Matrix d_x,
                                       Tensor<float> partial, ConstMatrix more = {});
std::int64_t norm_sum_blocks(std::int64_t rows);
inline constexpr std::int64_t max_summed_columns = 1024;

/// d_gamma = or += Σ d_y·(z − mean)·rstd (mean may be null) and d_beta = or += Σ d_y over rows, in row order for any
/// number of threads. Either may be null: it is not wanted.
void layer_norm_backward_weight(ConstMatrix d_y, ConstMatrix z, const float* mean, const float* rstd, float* d_gamma,
                                float* d_beta, Write write);

}  // namespace bert_hpc::ops
