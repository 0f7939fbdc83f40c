// AdamW over the ranges of a ParameterStore that this rank owns: biases and layer norms without weight decay, gradients
// clipped by their global norm as torch.nn.utils.clip_grad_norm_ does. Moments exist for the owned ranges only.
//
// Offloaded (Ren et al., "ZeRO-Offload", 2021), moments and the parameters that are updated are in host memory: sums of
// gradients are copied there, the host updates, new parameters are copied back, a range at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/ops/optimizer_update.hpp"
#include "bert_hpc/ops/rounded_weights.hpp"
#include "bert_hpc/train/data_parallel.hpp"

namespace bert_hpc::train {

struct AdamwSettings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  double max_gradient_norm = 1.0;  ///< 0 switches clipping off
};

class Adamw {
 public:
  /// `parameters`, and their `copies` if there are any, must outlive the optimizer. `owned` is copied. An update of
  /// everything in device memory writes the copies too. Gradients of slices within `replaced` (parts of the arena) stay
  /// as they are, unless offloaded: the next step replaces them, or clear_replaced() does.
  Adamw(const AdamwSettings& settings, core::ParameterStore& parameters, std::span<const OwnedRange> owned,
        bool offload = false, ops::RoundedWeights* copies = nullptr, std::span<const ArenaRange> replaced = {});

  /// Offloaded: copies the gradients of owned range `range` to the host. Ranges that were not fetched before step() are
  /// fetched there.
  void fetch(std::size_t range);

  /// Update number `update` (from 1) with gradients that are `scale` times the true ones, whose global norm is
  /// gradient_norm; zeroes the owned gradients. `updated(range)` is called after each owned range, in order; without it
  /// one kernel updates everything that is in device memory.
  void step(double learning_rate, std::int64_t update, double gradient_norm,
            const std::function<void(std::size_t)>& updated = {}, double scale = 1);
  /// The same of everything, not offloaded, where `factor` in device memory will hold what gradients are multiplied by;
  /// if it is NaN, this is discard(). Does not wait.
  void step_on_device(double learning_rate, std::int64_t update, const float* factor);
  double max_gradient_norm() const { return settings_.max_gradient_norm; }

  /// Instead of step(): the owned gradients are zeroed, parameters and moments stay.
  void discard();
  /// Before a step in which this rank computes nothing: zeroes the gradients that it would replace.
  void clear_replaced();

  /// Offloaded: the parameters have been set from elsewhere.
  void parameters_changed() { has_masters_ = false; }

  /// Of the owned ranges, one after the other; in device memory, unless offloaded.
  std::span<float> first_moments() const { return {first_.data(), static_cast<std::size_t>(first_.size())}; }
  std::span<float> second_moments() const { return {second_.data(), static_cast<std::size_t>(second_.size())}; }

 private:
  struct Run {  // neighbouring owned elements with the same decay
    std::size_t begin = 0, size = 0;
    std::size_t state = 0;      // index of the first one's moments
    float* gradient = nullptr;  // (size)
    bool decay = true;
    std::uint8_t* marks = nullptr;          // of the gradient
    bool replaced = false;                  // the gradient, by the next step
    core::Bf16* narrow_gradient = nullptr;  // where it is stored in bf16
  };
  AdamwSettings settings_;
  core::ParameterStore& parameters_;
  ops::RoundedWeights* copies_;  // that updates write; or null
  struct Range {
    std::vector<Run> runs;
    std::size_t state = 0;
    OwnedRange owned;
    std::size_t first_run = 0;  // of those of all ranges
    bool fetched = false;
  };
  ops::AdamwStep constants(double learning_rate, std::int64_t update) const;
  ops::AdamwRange resident(const Run& run) const;
  static void clear(const Run& run);
  void update_on_host(const Run& run, const ops::AdamwStep& step);
  void update_offloaded(std::size_t range, ops::AdamwStep step);

  std::vector<Range> ranges_;
  core::Buffer<float> first_, second_;
  ops::AdamwRanges resident_;  // the runs of all ranges, unless offloaded
  bool offload_ = false, has_masters_ = false;
  core::Buffer<float> masters_, gradients_;  // offloaded: of the owned ranges, one after the other
};

}  // namespace bert_hpc::train
