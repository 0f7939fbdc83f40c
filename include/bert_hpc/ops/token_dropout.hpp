// ESM's embeddings of masked tokens (Lin et al., "Evolutionary-scale prediction of atomic-level protein structure with
// a language model", 2023; Transformers' token_dropout): mask tokens have zeros, and the other tokens of a sequence are
// scaled, so that a sequence's sum does not depend on how many of its tokens are masked.
#pragma once

#include <cstdint>

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"

namespace bert_hpc::ops {

struct TokenDropout {
  std::int32_t mask_token = -1;  ///< its id; -1: there is no such dropout
  float kept = 1;                ///< share of tokens that were not masked when the model was pretrained, 0 to 1

  explicit operator bool() const { return mask_token >= 0; }
};

/// factors[t] = 0 of a mask token, else kept / (share of the real tokens of t's sequence that are no mask tokens).
/// factors (tokens).
void token_factors(const core::MicroBatch& batch, const TokenDropout& dropout, float* factors);

/// x[i] *= factors[i], computed in fp32. A factor of 0 makes zeros, of infinite and undefined elements too: gradients
/// behind a layer norm of a row of zeros may be such. factors (rows), x (rows, columns).
void scale_rows(const float* factors, core::Matrix x);

}  // namespace bert_hpc::ops
