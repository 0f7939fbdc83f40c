// The GELU with tanh that GPT-2 uses. All matrices of a call have the same element type; the kernels compute in float.
#pragma once

#include "bert_hpc/core/matrix.hpp"

namespace bert_hpc::ops {

using core::ConstMatrix;
using core::Matrix;
using core::Tensor;

/// y = gelu_tanh(pre). Shapes equal; y may be pre.
void gelu_tanh_forward(ConstMatrix pre, Matrix y);

/// d_pre = d_y ∘ gelu_tanh'(pre). Shapes equal; d_pre may be d_y.
void gelu_tanh_backward(ConstMatrix pre, ConstMatrix d_y, Matrix d_pre);

}  // namespace bert_hpc::ops
