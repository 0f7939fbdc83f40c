// The recurrence of an LSTM layer in both directions over unpadded sequences (Hochreiter and Schmidhuber, "Long
// short-term memory", 1997; Graves and Schmidhuber, "Framewise phoneme classification with bidirectional LSTM", 2005).
// Token t and the token before it in its direction make, with gates in the order of PyTorch and cuDNN:
//   i, f, o = σ(W·x_t + R·h_{t−1} + b),  g = tanh(W·x_t + R·h_{t−1} + b),  c_t = f∘c_{t−1} + i∘g,  h_t = o∘tanh(c_t).
// The products W·x of all tokens and both directions are one matrix product of the caller, and so are the gradients of
// W and R. What remains is a loop over steps: at each, the product with R of the sequences that have not ended, and one
// kernel for all else. Sequences are ordered by length (core::LengthOrder), so that those are the first rows of every
// matrix of a step.
#pragma once

#include <cstdint>

#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::ops {

using core::LengthOrder;

struct LstmWeights {
  Tensor<const float> recurrent[2];  ///< R of each direction, forward first: (4·hidden, hidden)
  const float* bias = nullptr;       ///< (8·hidden): of both directions
};

/// Activations of both directions, those of the forward direction in the first columns. `previous` and `gates` are read
/// by the backward pass.
struct LstmActivations {
  Matrix gates;         ///< (tokens, 8·hidden): W·x before; i, f, g, o after
  Tensor<float> cells;  ///< (tokens, 2·hidden): c
  Matrix previous;      ///< (tokens, 2·hidden): h of the token before in each direction, or zeros
  Matrix output;        ///< (tokens, 2·hidden): h; zeros in rows of padding
};

/// Bytes of scratch memory for each sequence that the two passes take.
std::int64_t lstm_scratch_bytes(std::int64_t hidden);

void lstm_forward(MatrixProduct& products, const LstmWeights& weights, const LengthOrder& order,
                  const LstmActivations& activations, core::Workspace& scratch);

/// d_gates (tokens, 8·hidden): gradients at the sums inside σ and tanh, zeros in rows of padding. d_output (tokens,
/// 2·hidden). Activations as forward has left them, without its output.
void lstm_backward(MatrixProduct& products, const LstmWeights& weights, const LengthOrder& order,
                   const LstmActivations& activations, ConstMatrix d_output, Matrix d_gates, core::Workspace& scratch);

}  // namespace bert_hpc::ops
