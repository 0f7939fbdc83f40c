// Delayed scaling (NVIDIA Transformer Engine's recipe for Micikevicius et al., "FP8 formats for deep learning", 2022):
// what an operand of an FP8 product is multiplied by follows from its largest magnitudes in the last steps. During a
// step scales are constant; meanwhile the kernels that round note the largest magnitude that they see, and at the
// step's end, when the ranks have taken the maximum over all of them, histories move on and the next scales are made:
// on the device, and the same whatever the layout, as a maximum has no order.
//
// Each layer has two operands with a history, x and d_y. Its weights change once a step and are there at once: their
// scale follows from their own largest magnitude.
//
// Before there is any history nothing is known of the magnitudes (of gradients least of all): known() says so, and the
// first step computes without FP8.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/float8.hpp"

namespace bert_hpc::ops {

enum class Fp8Operand { x, d_y, weight };

/// Activations and weights in E4M3, gradients in E5M2.
constexpr core::Float8 format_of(Fp8Operand operand) {
  return operand == Fp8Operand::d_y ? core::Float8::e5m2 : core::Float8::e4m3;
}

/// Where kernels find the scale of one operand, and where they note its magnitude: device memory.
struct Fp8Scale {
  core::Float8 format = core::Float8::e4m3;
  const float* scale = nullptr;
  const float* inverse = nullptr;    ///< 1 / scale
  std::uint32_t* largest = nullptr;  ///< bits of a float that is not negative, so that they have its order
};

/// Steps that a scale looks back on.
inline constexpr std::int64_t fp8_history = 16;

BERT_HPC_DEVICE float largest_known(const float* history, std::int64_t known) {
  float largest = 0.0f;
  for (std::int64_t i = 0; i < known; ++i) largest = history[i] > largest ? history[i] : largest;
  return largest;
}

/// Enters a step's largest magnitude at `slot` of a history whose first `known` entries are known. What is not finite
/// is not entered: the largest of before takes its place.
BERT_HPC_DEVICE void enter_magnitude(float* history, std::int64_t slot, std::int64_t known, std::uint32_t largest) {
  const bool finite = largest < 0x7F800000u;
  history[slot] = finite ? __builtin_bit_cast(float, largest) : largest_known(history, known);
}

class Fp8Scales {
 public:
  /// Of these layers' operands. Allocates (`allocates`: else bytes() alone are asked for).
  Fp8Scales(std::vector<std::string> layers, bool allocates);

  std::int64_t bytes() const;
  /// Is there a history?
  bool known() const { return steps_ > 0; }
  Fp8Scale of(std::size_t layer, Fp8Operand operand) const;

  /// The largest magnitudes so far: of the step's x and d_y, or of the weights; for ranks to take the maximum.
  std::span<float> step_magnitudes() const { return {largest_.data(), 2 * names_.size()}; }
  std::span<float> weight_magnitudes() const { return {largest_.data() + 2 * names_.size(), names_.size()}; }

  /// Makes the weights' scales of weight_magnitudes(), which become zero.
  void scale_weights();
  /// Moves histories on by step_magnitudes(), which become zero, and makes the scales of the next step.
  void end_step();
  /// The step is left out: its magnitudes are forgotten.
  void forget_step();

  /// Histories as a text, a line each: layer, operand, magnitudes from the oldest on. Empty where nothing is known.
  std::string text() const;
  /// Takes its layers' histories, and makes the scales, from lines of any ranks' texts. Throws Error(files) where one
  /// is missing or damaged.
  void restore(const std::string& text);

 private:
  std::size_t index(std::size_t layer, Fp8Operand operand) const {
    return static_cast<std::size_t>(operand) * names_.size() + layer;
  }
  std::int64_t histories() const { return 2 * static_cast<std::int64_t>(names_.size()); }
  void make_scales(std::int64_t known);

  std::vector<std::string> names_;
  // By operand, then by layer.
  core::Buffer<float> scale_, inverse_, largest_;
  core::Buffer<float> history_;  // (x and d_y of all layers, fp8_history): a ring
  std::int64_t steps_ = 0;       // entered
};

}  // namespace bert_hpc::ops
