// Cross entropy over the candidates of a query, and its gradient in one pass (ListNet's top-one loss with one share for
// each relevant candidate; Cao et al. 2007, doi:10.1145/1273496.1273513).
#pragma once

#include <cstdint>

#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

/// logits (rows, 1): scores of candidates. lists (count, 2): the candidates of query q are rows [lists[2 q],
/// lists[2 q + 1]), at least one of them relevant; no row is of two queries. relevant (rows): 1, else 0. With p =
/// softmax of a query's scores, its loss is the mean of −log p over its relevant candidates. row_loss (rows), unscaled:
/// the loss at its first row; 0 elsewhere. If d_logits has data, d_logits = scale · the gradient of Σ row_loss at the
/// logits, 0 for rows of no query; it may be logits.
void listwise_cross_entropy(core::Tensor<const float> logits, const std::int32_t* lists, std::int64_t count,
                            const float* relevant, float scale, float* row_loss, core::Tensor<float> d_logits);

}  // namespace bert_hpc::ops
