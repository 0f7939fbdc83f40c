// Cross entropy with class weights, label smoothing and focal loss, and its gradient in one pass. `scale` as in
// ops/losses.hpp.
#pragma once

#include <cstdint>

#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

struct CrossEntropyOptions {
  const float* class_weights = nullptr;  ///< (classes), at least 0, in device memory; null: 1 for each
  float label_smoothing = 0;             ///< ε in [0, 1): the part of a target that all classes share equally
  float focal_gamma = 0;                 ///< γ ≥ 0 of the focal loss

  /// Whether it is ops::cross_entropy().
  bool is_plain() const { return class_weights == nullptr && label_smoothing == 0 && focal_gamma == 0; }
};

/// logits (rows, classes), labels (rows). With p = softmax(logits) and the targets t_c = w_c · ((1 − ε)·[c = label] +
/// ε / classes): row_loss (rows) = −Σ_c t_c · (1 − p_c)^γ · log p_c, unscaled. With γ = 0 this is
/// torch.nn.CrossEntropyLoss(weight, label_smoothing, reduction="none"); with ε = 0 it is the focal loss of Lin et al.
/// (2017), equation 5, with α = w. If d_logits has data, d_logits = scale · the gradient at the logits; it may be
/// logits.
void weighted_cross_entropy(core::Tensor<const float> logits, const std::int32_t* labels,
                            const CrossEntropyOptions& options, float scale, float* row_loss,
                            core::Tensor<float> d_logits);

}  // namespace bert_hpc::ops
