// Losses of the texts of one row, of whose embeddings an anchor a, a positive p and negatives n are compared by their
// similarity s, as sentence-transformers' CosineSimilarityLoss, TripletLoss and MarginMSELoss:
//   score    (s(a, p) − score)²
//   triplet  mean over n of max(0, s(a, n) − s(a, p) + margin)
//   margin   mean over n of (s(a, p) − s(a, n) − score)² (Hofstätter et al., "Improving efficient neural ranking
//            models with cross-architecture knowledge distillation", 2020)
// The losses of several numbers of first columns are added (Kusupati et al., "Matryoshka representation learning",
// 2022).
#pragma once

#include <cstdint>
#include <vector>

#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

/// cos(a, b), whose lengths are at least 1e-8, as in PyTorch's cosine_similarity(); a · b; or −|a − b|, whose gradient
/// at equal embeddings is 0.
enum class Similarity { cosine, dot, euclidean };

struct TextGroupLoss {
  enum class Kind { score, triplet, margin };
  Kind kind = Kind::score;
  Similarity similarity = Similarity::cosine;
  float margin = 0;                        ///< of triplets
  std::vector<std::int64_t> dimensions{};  ///< descending numbers of first columns; empty: all columns

  static constexpr std::int64_t scratch = 2;  ///< numbers of each text
};

/// embeddings (texts, columns); groups (count, 2): texts [begin, end) of each, the anchor first, then the positive and,
/// except for scores, one or more negatives; values (texts, 4): second the score of each text's group, as
/// core::TextTargets; scratch (texts, 2). row_loss (texts): that of a group with its anchor, 0 with its other texts.
/// d_embeddings: the gradient of scale · Σ row losses, may be `embeddings`; without data there is none. A group's bits
/// do not depend on other groups.
void text_group_loss(core::Tensor<const float> embeddings, const std::int32_t* groups, std::int64_t count,
                     const float* values, const TextGroupLoss& loss, float scale, float* scratch, float* row_loss,
                     core::Tensor<float> d_embeddings);

}  // namespace bert_hpc::ops
