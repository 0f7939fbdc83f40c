// What every layer is given: the engine, which computes products and attention, and the step's context (one
// micro-batch, training or not, and the key of its dropout).
//
// The contract of a layer: it owns parameter slices, never activations. forward() fills the activations that it will
// need (SavedActivations). backward_input() replaces d_x and fills what the weight gradients need
// (WeightGradientInputs). backward_weight() adds to the gradients. The last two are separate because zero-bubble
// pipeline schedules defer the second. Several micro-batches may be in flight, each with its own SavedActivations and
// WeightGradientInputs. Activations and the gradients with respect to them are matrices of the layer's storage type;
// statistics, losses and everything about parameters are floats, and so are logits, but for those
// over the vocabulary on GPUs.
#pragma once

#include <algorithm>

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/fp8_product.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::layers {

using core::ConstMatrix;
using core::DataType;
using core::Matrix;
using core::Tensor;
using ops::Activation;

class AttentionObserver;
class RowFactors;
class StreamObserver;

struct Engine {
  ops::MatrixProduct& products;
  ops::Attention& attention;
  ops::Fp8Product* fp8 = nullptr;  ///< of the encoder's linear layers, where they are trained in FP8
  /// How backward_weight writes the gradients of the encoder's linear layers: it may replace what is zero anyway, which
  /// spares reading it. All other gradients are added to.
  ops::Write weight_gradients = ops::Write::accumulate;
  core::Workspace* scratch = nullptr;  ///< of adapters and recurrences; null if there are none
  RowFactors* factors = nullptr;       ///< of adapters with magnitudes; null if there are none

  /// The products of the encoder's layer whose weight, or first weight, is this slice of the parameters.
  ops::MatrixProduct& products_of(int weight) const { return fp8 != nullptr ? fp8->of(weight) : products; }
};

struct StepContext {
  const core::MicroBatch& batch;
  bool training = false;                            ///< dropout is drawn in training only
  std::uint32_t key0 = 0, key1 = 0;                 ///< of the step
  int number = 0;                                   ///< of the pass in its step
  StreamObserver* observer = nullptr;               ///< of the residual stream; null: none
  AttentionObserver* attention_observer = nullptr;  ///< null: none
  /// No backward pass follows, in training either: nothing is kept for it.
  bool forward_only = false;

  bool keeps_activations() const { return training && !forward_only; }
  core::Dropout dropout(float probability, std::uint32_t site) const {
    return {
        .probability = training ? probability : 0.0f, .key0 = key0, .key1 = key1, .site = site, .sample = batch.sample};
  }
};

/// A selection of token rows: those that the next layer reads.
struct RowSelection {
  core::TokenRows rows;
  const std::int32_t* index = nullptr;  ///< (rows.count): row numbers among all tokens
};

/// Upper bounds of a micro-batch, for planning memory.
struct BatchBounds {
  std::int64_t tokens = 0, sequences = 0, max_length = 0;
  std::int64_t selected = 0;       ///< rows that the head reads
  std::int64_t dropout_tiles = 0;  ///< of the attention that will be used, for max_length: see ops::Attention
};

/// Bounds of micro-batches of both kinds; dropout_tiles is 0.
inline BatchBounds larger(const BatchBounds& a, const BatchBounds& b) {
  return {.tokens = std::max(a.tokens, b.tokens),
          .sequences = std::max(a.sequences, b.sequences),
          .max_length = std::max(a.max_length, b.max_length),
          .selected = std::max(a.selected, b.selected)};
}

}  // namespace bert_hpc::layers
