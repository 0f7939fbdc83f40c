// Gated linear units (Dauphin et al. 2017; Shazeer, "GLU variants improve transformer", 2020): the activation of one
// product times another product, element by element.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/ops/epilogue.hpp"

namespace bert_hpc::ops {

/// y = activation(a) ∘ b with pre = [a, b]. pre (rows, 2 · columns), y (rows, columns), of one type. Throws
/// Error(internal) for activations that gates are not built for.
void gated_forward(Activation activation, core::ConstMatrix pre, core::Matrix y);

/// d_pre = [d_y ∘ b ∘ activation'(a), d_y ∘ activation(a)]; d_pre may be pre.
void gated_backward(Activation activation, core::ConstMatrix pre, core::ConstMatrix d_y, core::Matrix d_pre);

}  // namespace bert_hpc::ops
