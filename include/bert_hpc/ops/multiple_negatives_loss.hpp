// The loss of embeddings by in-batch negatives (Henderson et al., "Efficient natural language response suggestion for
// smart reply", 2017), as sentence-transformers' MultipleNegativesRankingLoss: of anchor a_i all other candidates of
// the batch are negatives. With x_ij = scale · cos(a_i, c_j) and the positive c_p(i) of a_i:
//   L_i = log Σ_j exp(x_ij) − x_ip(i)
// symmetric: the mean of that and of the same loss of positives over the anchors,
//   L'_i = log Σ_k exp(x_kp(i)) − x_ip(i)
// skips_duplicates: sums leave out x_ij if c_j is no negative of a_i although it is not its own positive: c_j equals
// a_i or its positive, or is the positive of an anchor that equals a_i. Such rows are in no batch of
// sentence-transformers' NoDuplicatesBatchSampler.
#pragma once

#include <cstdint>

#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

struct MultipleNegatives {
  float scale = 20;
  bool symmetric = false;
  bool skips_duplicates = false;

  static constexpr std::int64_t scratch = 2;  ///< numbers of each row
};

/// embeddings (rows, columns), not shorter than 1e-12; texts (rows, 4): the index of each row's text in its group
/// and its hash, as core::TextTargets; the rows of a group are neighbours, its anchor first, then its positive, and
/// further negatives. scratch (rows, 2). Adds for the rows from `begin` on, as many as d_embeddings has: to row_loss
/// (own rows) that of a pair with its anchor, with `symmetric` half of it with its positive; to d_embeddings (own rows,
/// columns) the gradient of gradient_scale · Σ of all rows' losses. Bits of a row depend neither on `begin` nor on the
/// number of own rows.
void multiple_negatives_loss(core::Tensor<const float> embeddings, const float* texts, const MultipleNegatives& options,
                             std::int64_t begin, float gradient_scale, float* scratch, float* row_loss,
                             core::Tensor<float> d_embeddings);

}  // namespace bert_hpc::ops
