// Elementwise kernels on (rows, columns): bias, GELU in its exact form x·Φ(x) with the error function (Hendrycks and
// Gimpel, "Gaussian error linear units", 2016; what BERT uses), tanh for the pooler, and sums over rows.
#pragma once

#include "bert_hpc/core/tensor.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::ops {

/// y += bias. y (rows, columns), bias (columns).
void add_bias(Tensor<float> y, const float* bias);

/// y = gelu(pre). Shapes equal; y may be pre.
void gelu_forward(Tensor<const float> pre, Tensor<float> y);

/// d_pre = d_y ∘ gelu'(pre). Shapes equal; d_pre may be d_y.
void gelu_backward(Tensor<const float> pre, Tensor<const float> d_y, Tensor<float> d_pre);

/// y = tanh(x); y may be x.
void tanh_forward(Tensor<const float> x, Tensor<float> y);

/// d_x = d_y ∘ (1 − y²), y being tanh's result; d_x may be d_y.
void tanh_backward(Tensor<const float> y, Tensor<const float> d_y, Tensor<float> d_x);

/// y = x. Shapes equal.
void copy(Tensor<const float> x, Tensor<float> y);

/// y += x. Shapes equal.
void add(Tensor<const float> x, Tensor<float> y);

/// sums = or += column sums of x, rows added in order whatever the number of threads. x (rows, columns), sums
/// (columns).
void column_sums(Tensor<const float> x, float* sums, Write write);

/// y[i] = x[rows[i]]. x (any, columns), rows (y.rows), y (selected, columns).
void gather_rows(Tensor<const float> x, const std::int32_t* rows, Tensor<float> y);

/// y[rows[i]] += x[i]; rows are distinct. x (selected, columns), y (any, columns).
void scatter_add_rows(Tensor<const float> x, const std::int32_t* rows, Tensor<float> y);

}  // namespace bert_hpc::ops
