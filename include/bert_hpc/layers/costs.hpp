// What a layer costs per micro-batch: operations of its matrix products, bytes that everything else moves, memory for
// activations. Each layer states its costs beside its parameters; model/model_costs.hpp sums them. Counted from
// formulas, good to some ten per cent, for planning. Pure.
//
// A product of (r, k) by (k, n) is 2·r·k·n operations. Backward does as much again for the inputs (attention 2.5 times:
// five products instead of two) and once more for the weights (attention none).
#pragma once

namespace bert_hpc::layers {

/// The size of a micro-batch.
struct BatchShape {
  double tokens = 0, squared_lengths = 0;  ///< Σ length, Σ length² over its sequences
  double logit_positions = 0;              ///< rows that the head reads: sequences, or masked tokens
};

struct Work {
  double flops = 0, bytes = 0;
  double attention = 0;       ///< of the operations, those of scores and weighted sums
  double moved = 0;           ///< of the bytes, those of activations that element-wise kernels read and write
  double attention_rows = 0;  ///< query rows times heads
  double passes = 0;          ///< of layers

  Work& operator+=(const Work& other);
};

/// Work of the passes of one micro-batch that schedules distinguish.
struct PassWork {
  Work forward, backward_input, backward_weight;

  PassWork& operator+=(const PassWork& other);
  /// One of several ranks that share the layer equally.
  PassWork& operator/=(double ranks);
};

/// Costs of a whole layer, not of one rank's share.
struct LayerCosts {
  PassWork work;
  double saved_bytes = 0;     ///< of activations that a micro-batch in flight holds
  double deferred_bytes = 0;  ///< of gradients between backward_input and backward_weight
};

/// A layer with products of `products` operations and `attention` operations between them. `moved`: bytes of
/// activations that forward reads and writes; backward_input moves twice as many. `operands`: bytes of the operands of
/// the weight gradients' products. `weights`: elements of the products' weights. `attention_rows`: query rows times
/// heads.
PassWork work_of_products(double products, double attention, double moved, double operands, double weights,
                          double attention_rows);

}  // namespace bert_hpc::layers
