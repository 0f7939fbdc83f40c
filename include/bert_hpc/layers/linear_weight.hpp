// The weights of linear layers as planning knows them: all memory for matrix products is planned from the lists that
// layers give of them, so that no product can be larger than what was planned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/layers/step_context.hpp"

namespace bert_hpc::layers {

/// The weight of a linear layer, or of its adapters, and the rows to which it is applied.
struct LinearWeight {
  int slice = 0;                ///< of the parameters; of joined weights, the first one's
  std::string name;             ///< likewise
  Tensor<const float> weights;  ///< (out, in) on this rank; no data where there are no values
  bool selected = false;        ///< applied to the rows that the head reads; else to all tokens
  std::int64_t fixed_rows = 0;  ///< applied to so many rows, whatever the batch; 0: to those of the batch
  /// Elements of each matrix of adapters that their products take from Engine::scratch, a row.
  std::vector<std::int64_t> scratch_columns{};
  std::int64_t series = 1;  ///< number of such weights whose products are a series
  /// Bytes that a recurrence takes from Engine::scratch for each sequence.
  std::int64_t scratch_bytes_of_sequence = 0;

  std::int64_t rows(const BatchBounds& bounds) const {
    if (fixed_rows > 0) return fixed_rows;
    return selected ? bounds.selected : bounds.tokens;
  }
  /// The largest product with this weight, forward or backward, for micro-batches within the bounds.
  ops::ProductExtents extents(const BatchBounds& bounds) const {
    return {.rows = rows(bounds), .in = weights.columns, .out = weights.rows, .series = series};
  }
};

}  // namespace bert_hpc::layers
