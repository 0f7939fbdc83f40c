// The loss of pairs of embeddings with a score, as sentence-transformers' CosineSimilarityLoss: (cos(a, b) − score)².
#pragma once

#include <cstdint>

#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

/// embeddings (rows, columns), not shorter than 1e-8; pairs (count, 2): rows [begin, begin + 2) of each; texts (rows,
/// 2): second the score of each row's pair, as core::TextTargets. row_loss (rows): that of a pair with its first row, 0
/// with its second. d_embeddings: the gradient of scale · Σ row losses, may be `embeddings`; without data there is
/// none.
void cosine_similarity_loss(core::Tensor<const float> embeddings, const std::int32_t* pairs, std::int64_t count,
                            const float* texts, float scale, float* row_loss, core::Tensor<float> d_embeddings);

}  // namespace bert_hpc::ops
