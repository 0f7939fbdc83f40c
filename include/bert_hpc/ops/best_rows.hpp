// The best documents of a search: of each query the k with the largest scores, kept up to date block by block.
#pragma once

#include <cstdint>

#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

/// Lists in memory where kernels run, each sorted by falling score; of equal scores the lower number comes first. It
/// owns nothing.
struct BestRows {
  float* scores = nullptr;          ///< (queries, k); −∞ behind the last document
  std::int32_t* numbers = nullptr;  ///< (queries, k): of documents; −1 behind the last one
  std::int64_t queries = 0, k = 0;
};

/// Makes all lists empty.
void clear_best_rows(const BestRows& best);

/// Takes the scores (queries, documents) of the documents from number `first` on into the lists. Documents come in
/// rising order. Scores are finite.
void keep_best_rows(core::Tensor<const float> scores, std::int32_t first, const BestRows& best);

}  // namespace bert_hpc::ops
