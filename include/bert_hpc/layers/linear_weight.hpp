// The weights of a model's matrix products. Each layer lists its own; all memory for matrix products is planned from
// these lists, so that no product can be larger than what was planned.
#pragma once

#include <string>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/layers/pass.hpp"

namespace bert_hpc::layers {

/// A weight that matrix products read, or several joined ones, and the rows to which they apply it.
struct LinearWeight {
  int slice = 0;                ///< of the parameters: the first one's
  std::string name;             ///< the first one's
  Tensor<const float> weights;  ///< (out, in) on this rank; no data where there are no values
  bool selected = false;        ///< applied to the rows that the head reads; else to all tokens

  /// The largest product with this weight, forward or backward, for micro-batches within the bounds.
  ops::ProductExtents extents(const BatchBounds& bounds) const {
    return {.rows = selected ? bounds.selected : bounds.tokens, .in = weights.columns, .out = weights.rows};
  }
};

/// The weight in this slice, joined with those of the `joined` - 1 slices after it.
LinearWeight linear_weight(const core::ParameterStore& parameters, int slice, bool selected, std::int64_t joined = 1);

}  // namespace bert_hpc::layers
