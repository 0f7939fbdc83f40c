// AdamW over the ranges of a ParameterStore that this rank owns: biases and layer norms without weight decay, gradients
// clipped by their global norm as torch.nn.utils.clip_grad_norm_ does. Moments exist for the owned ranges only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/train/data_parallel.hpp"

namespace bert_hpc::train {

struct AdamwSettings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  double max_gradient_norm = 1.0;  ///< 0 switches clipping off
};

class Adamw {
 public:
  /// `parameters` must outlive the optimizer. `owned` is copied.
  Adamw(const AdamwSettings& settings, const core::ParameterStore& parameters, std::span<const OwnedRange> owned);

  /// Update number `update` (from 1) with gradients of this global norm; zeroes the owned gradients.
  void step(double learning_rate, std::int64_t update, double gradient_norm);

  /// Of the owned ranges, one after the other.
  std::span<float> first_moments() const { return {first_.data(), static_cast<std::size_t>(first_.size())}; }
  std::span<float> second_moments() const { return {second_.data(), static_cast<std::size_t>(second_.size())}; }

 private:
  struct Run {  // neighbouring owned elements with the same decay
    std::size_t begin = 0, size = 0;
    std::size_t moment = 0;     // index of the first one's moments
    float* gradient = nullptr;  // (size)
    bool decay = true;
  };
  AdamwSettings settings_;
  const core::ParameterStore& parameters_;
  std::vector<Run> runs_;
  core::Buffer<float> first_, second_;
};

}  // namespace bert_hpc::train
