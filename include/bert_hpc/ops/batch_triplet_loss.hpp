// Triplet losses of embeddings with classes: for an anchor a, a positive p is another text of its class and a negative
// n a text of another class of the batch; d is a distance. As in sentence-transformers:
//   hard         max(0, d(a, p) − d(a, n) + margin) of the farthest p and the nearest n; the mean over anchors
//                (BatchHardTripletLoss; Hermans, Beyer and Leibe, "In defense of the triplet loss for person
//                re-identification", 2017)
//   soft_margin  log(1 + exp(d(a, p) − d(a, n))) of the same p and n; the mean over anchors
//                (BatchHardSoftMarginTripletLoss)
//   semi_hard    max(0, d(a, p) − d(a, n) + margin) of each p and the nearest n that is farther than p, or of the
//                farthest n if none is; the mean over pairs of a and p (BatchSemiHardTripletLoss; Schroff,
//                Kalenichenko and Philbin, "FaceNet", 2015)
//   all          the mean of max(0, d(a, p) − d(a, n) + margin) over the triplets in which it is above 0
//                (BatchAllTripletLoss)
// In "hard" and "soft_margin" d(a, p) is 0 for an anchor without positives. An anchor without negatives has the loss 0.
#pragma once

#include <cstdint>

#include "bert_hpc/core/tensor.hpp"
#include "bert_hpc/ops/text_group_loss.hpp"

namespace bert_hpc::ops {

struct BatchTriplets {
  enum class Kind { hard, soft_margin, semi_hard, all };
  Kind kind = Kind::hard;
  Similarity similarity = Similarity::euclidean;  ///< d = |a − b|, or 1 − cos(a, b); not `dot`
  float margin = 5;

  /// Floats of scratch for a batch.
  static std::int64_t scratch(std::int64_t rows) { return rows * (2 * rows + 3) + 1; }
};

/// embeddings (rows, columns), no shorter than 1e-8; classes (rows); scratch as above. For the rows from `begin` on, as
/// many as d_embeddings has: row_loss (own rows), whose mean over all rows is the loss, and d_embeddings (own rows,
/// columns), the gradient of gradient_scale · Σ of all rows' losses. Bits of a row depend neither on `begin` nor on the
/// number of own rows.
void batch_triplet_loss(core::Tensor<const float> embeddings, const std::int32_t* classes, const BatchTriplets& options,
                        std::int64_t begin, float gradient_scale, float* scratch, float* row_loss,
                        core::Tensor<float> d_embeddings);

}  // namespace bert_hpc::ops
