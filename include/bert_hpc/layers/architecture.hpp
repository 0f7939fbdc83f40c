// The choices by which transformer encoders differ. A model's family fills them in from its config.json; layers read
// them as data. What no layer computes yet is refused when a model is planned (model::make_plan()).
#pragma once

#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/epilogue.hpp"

namespace bert_hpc::layers {

using ops::Activation;
using ops::AttentionMask;

enum class NormPlace { after, before };  ///< of the residual: after in BERT
enum class NormKind { layer, rms };      ///< of the mean and the variance, or the square mean
enum class Gate { none, multiplied };    ///< of a feed-forward: (act(x·W₁ᵀ) ∘ x·W₃ᵀ)·W₂ᵀ
enum class Positions { learned, rotary, sinusoidal, none };  ///< learned: a table, added to the words' embeddings

}  // namespace bert_hpc::layers
