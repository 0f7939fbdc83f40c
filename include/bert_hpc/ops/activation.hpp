// Elementwise kernels on (rows, columns): bias, exact GELU x·Φ(x) with the error function (Hendrycks and Gimpel,
// "Gaussian error linear units", 2016; used by BERT), tanh for the pooler. Unless stated otherwise,
// all matrices of one call have the same element type. All kernels compute in float.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/ops/column_sums.hpp"
#include "bert_hpc/ops/epilogue.hpp"

namespace bert_hpc::ops {

using core::ConstMatrix;
using core::Matrix;
using core::Tensor;

/// y += bias. y (rows, columns), bias (columns).
void add_bias(Matrix y, const float* bias);

/// y = gelu(pre). Shapes equal; y may be pre.
void gelu_forward(ConstMatrix pre, Matrix y);

/// pre += bias, y = gelu(pre) with pre as stored, in one pass. Shapes equal, bias (columns); y must not be pre.
void bias_gelu_forward(Matrix pre, const float* bias, Matrix y);

/// The rest of a product whose sum (see Epilogue::sum()) holds x·wᵀ, or d_y·w. Throws Error(internal) on activations
/// that products are not built for.
void finish(const Epilogue& epilogue, Matrix y);
void finish(const InputEpilogue& epilogue, Matrix d_x);
/// y = activation(pre), with the bias in pre already.
void activate(const Epilogue& epilogue, Matrix y);

/// d_pre = d_y ∘ gelu'(pre). Shapes equal; d_pre may be d_y.
void gelu_backward(ConstMatrix pre, ConstMatrix d_y, Matrix d_pre);

/// As above, and also sums[j] = or += Σ_i d_pre(i, j) as stored, unless `sums` is null. The same launch computes
/// `more`, sums of fp32 numbers, with the same `write`.
void gelu_backward(ConstMatrix pre, ConstMatrix d_y, Matrix d_pre, float* sums, Write write,
                   const ColumnSums& more = {});

/// Whether layers request such sums. They do on GPUs if fusion() enables them, as this saves a pass over the matrix. On
/// CPUs that pass is cheap.
bool fuses_row_sums();

/// y = silu(pre) = pre·σ(pre), and d_pre = d_y ∘ silu'(pre). Shapes equal; y may be pre, d_pre may be d_y.
void silu_forward(ConstMatrix pre, Matrix y);
void silu_backward(ConstMatrix pre, ConstMatrix d_y, Matrix d_pre);

/// y = tanh(x); y may be x.
void tanh_forward(ConstMatrix x, Matrix y);

/// d_x = d_y ∘ (1 − y²), where y is the result of tanh; d_x may be d_y.
void tanh_backward(ConstMatrix y, ConstMatrix d_y, Matrix d_x);

/// y = max(x, 0); y may be x.
void relu_forward(ConstMatrix x, Matrix y);

/// d_x = d_y where y > 0, where y is the result of relu, else 0; d_x may be d_y.
void relu_backward(ConstMatrix y, ConstMatrix d_y, Matrix d_x);

/// y = x, with conversion if the types differ. Shapes equal.
void copy(ConstMatrix x, Matrix y);

/// y += x. Shapes equal.
void add(ConstMatrix x, Matrix y);

/// x *= factor.
void scale(float factor, Matrix x);

/// y[i] = x[rows[i]]. x (any, columns), rows (y.rows), y (selected, columns).
void gather_rows(ConstMatrix x, const std::int32_t* rows, Matrix y);

/// y[rows[i]] += x[i]; rows are distinct. x (selected, columns), y (any, columns).
void scatter_add_rows(ConstMatrix x, const std::int32_t* rows, Matrix y);

}  // namespace bert_hpc::ops
