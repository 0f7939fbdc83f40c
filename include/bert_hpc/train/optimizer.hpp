// AdamW over the ranges of a ParameterStore that this rank owns: biases and layer norms without weight decay, gradients
// clipped by their global norm as torch.nn.utils.clip_grad_norm_ does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/train/data_parallel.hpp"

namespace bert_hpc::train {

struct AdamwSettings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  double max_gradient_norm = 1.0;  ///< 0 switches clipping off
};

class Adamw {
 public:
  /// `parameters` must have gradients and moments, and outlive the optimizer. `owned` is copied.
  Adamw(const AdamwSettings& settings, const core::ParameterStore& parameters, std::span<const OwnedRange> owned);

  /// Update number `update` (from 1) with gradients of this global norm; zeroes the owned gradients.
  void step(double learning_rate, std::int64_t update, double gradient_norm);

 private:
  struct Run {  // neighbouring owned elements with the same decay
    std::size_t begin = 0, size = 0;
    float* gradient = nullptr;  // (size)
    bool decay = true;
  };
  AdamwSettings settings_;
  const core::ParameterStore& parameters_;
  std::vector<Run> runs_;
};

}  // namespace bert_hpc::train
