// An optimizer over the ranges of a ParameterStore that this rank owns: gradients clipped by their global norm as
// torch.nn.utils.clip_grad_norm_ does, then the rule that the input names (ops/update_rule.hpp). States exist for the
// owned ranges only.
//
// Offloaded (Ren et al., "ZeRO-Offload", 2021), states and the parameters that are updated are in host memory: sums of
// gradients are copied there, the host updates, new parameters are copied back, a range at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/ops/rounded_weights.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "bert_hpc/train/data_parallel.hpp"
#include "bert_hpc/train/optimizer_states.hpp"
#include "bert_hpc/train/tensor_norms.hpp"

namespace bert_hpc::train {

struct OptimizerSettings {
  std::string name{};              ///< of ops::optimizer_kinds(); empty: the first
  std::vector<double> values{};    ///< of its own keys, in their order; empty: their defaults
  double max_gradient_norm = 1.0;  ///< 0 switches clipping off
  bool coupled_decay = false;      ///< weight decay is a part of the gradient
  bool postpones = true;           ///< CPU kernels: updates of rows that no batch reads wait, with the same bits
};

class Optimizer {
 public:
  /// `parameters`, and their `copies` if there are any, must outlive the optimizer. `owned` is copied. An update of
  /// everything in device memory writes the copies too. Gradients of slices within `replaced` (parts of the arena) stay
  /// as they are, unless offloaded: the next step replaces them, or clear_replaced() does. `norms`: for rules that need
  /// norms of whole tensors; without it, this rank has the whole model alone. Throws Error(input) if there is no
  /// such optimizer.
  Optimizer(const OptimizerSettings& settings, core::ParameterStore& parameters, std::span<const OwnedRange> owned,
            bool offload = false, ops::RoundedWeights* copies = nullptr, std::span<const ArenaRange> replaced = {},
            const std::optional<TensorNormScope>& norms = std::nullopt);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  ~Optimizer();  ///< makes all updates that were postponed

  /// Offloaded: copies the gradients of owned range `range` to the host. Ranges that were not fetched before step() are
  /// fetched there.
  void fetch(std::size_t range);

  /// Update number `update` (from 1) with gradients that are `scale` times the true ones, whose global norm is
  /// gradient_norm; zeroes the owned gradients. `updated(range)` is called after each owned range, in order; without it
  /// one kernel updates everything that is in device memory. Collective over the scope of tensor norms, if the rule
  /// needs them.
  void step(double learning_rate, std::int64_t update, double gradient_norm,
            const std::function<void(std::size_t)>& updated = {}, double scale = 1);
  /// The same of everything, where steps_on_device(), and `factor` in device memory will hold what gradients are
  /// multiplied by; if it is NaN, this is discard(). Does not wait.
  void step_on_device(double learning_rate, std::int64_t update, const float* factor);
  bool steps_on_device() const { return !offload_ && !rule_->needs_tensor_norms(); }
  double max_gradient_norm() const { return max_gradient_norm_; }

  /// Instead of step(): the owned gradients are zeroed, parameters and states stay.
  void discard();
  /// Before a step in which this rank computes nothing: zeroes the gradients that it would replace.
  void clear_replaced();

  /// Offloaded: the parameters have been set from elsewhere.
  void parameters_changed() { has_masters_ = false; }

  /// States of the owned ranges; in device memory, unless offloaded. Call ParameterStore::values() before: it makes
  /// postponed updates.
  const OptimizerStates& states() const { return states_; }

 private:
  struct Run {  // neighbouring owned elements with the same update
    std::size_t begin = 0, size = 0;
    std::size_t owned = 0;  // index of the first one among the owned elements
    OptimizerStates::Position states;
    float* gradient = nullptr;  // (size)
    bool decay = true;
    std::uint8_t* marks = nullptr;          // of the gradient
    bool replaced = false;                  // the gradient, by the next step
    core::Bf16* narrow_gradient = nullptr;  // where it is stored in bf16
    bool postponed = false;                 // its updates
    std::int64_t tensor = 0, first_block = 0, phase = 0;
  };
  struct Range {
    std::vector<Run> runs;
    std::size_t first = 0;  // index of its first element among the owned ones
    OwnedRange owned;
    std::size_t first_run = 0, last_run = 0;  // of all ranges' runs, without postponed ones
    bool fetched = false;
  };
  void postpone_updates();
  void cut(std::span<const OwnedRange> owned, std::span<const ArenaRange> replaced);
  void assign_sum_blocks(Run& run, std::int64_t slice, std::int64_t& unused) const;
  ops::UpdateRange resident(const Run& run) const;
  ops::HostRange on_host(const Run& run) const;
  ops::StateBlocks blocks_of(const Run& run, std::size_t state) const;
  static void clear(const Run& run);
  void fetch_all();
  void update_offloaded(std::size_t range, const ops::UpdateStep& step);
  void find_tensor_scales(ops::UpdateStep& step);

  const ops::OptimizerKind& kind_;
  std::unique_ptr<ops::UpdateRule> rule_;
  double max_gradient_norm_;
  bool coupled_decay_;
  core::ParameterStore& parameters_;
  ops::RoundedWeights* copies_;  // that updates write; or null
  bool offload_ = false, has_masters_ = false;
  std::optional<TensorNormScope> norms_;

  std::vector<Range> ranges_;
  OptimizerStates states_;
  ops::UpdateRanges resident_;                      // the runs of all ranges, unless offloaded or postponed
  std::unique_ptr<ops::PostponedSteps> postponed_;  // or null
  core::Buffer<float> masters_, gradients_;         // offloaded: of the owned ranges, one after the other
  // For rules with tensor norms: two sums for each block, those that do not count last; and scales by tensor.
  core::MirroredArray<double> accumulators_;
  core::MirroredArray<float> tensor_scales_;
  std::vector<double> host_sums_;  // offloaded
  std::vector<float> host_tensor_scales_;
};

}  // namespace bert_hpc::train
