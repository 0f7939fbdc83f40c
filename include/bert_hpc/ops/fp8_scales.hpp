// Delayed scaling (NVIDIA Transformer Engine's recipe for Micikevicius et al., "FP8 formats for deep learning", 2022):
// the scale of an FP8 operand is computed from its largest magnitudes in the last steps. Scales are constant during a
// step while the rounding kernels record the largest magnitude they see. At the end of the step the ranks take the
// maximum over all of them, append it to the histories and compute the next scales. This happens on the device, and the
// result is the same for every layout, as a maximum does not depend on order.
//
// Each layer has two operands with a history, x and d_y. Weights change once per step and are available immediately, so
// their scale is computed from their current largest magnitude.
//
// Before the first step no magnitudes are known (known() is false), so the first step computes without FP8.
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

/// Device addresses of one operand's scale and of the magnitude that kernels record.
struct Fp8Scale {
  core::Float8 format = core::Float8::e4m3;
  const float* scale = nullptr;
  const float* inverse = nullptr;    ///< 1 / scale, at a multiple of 16 bytes
  std::uint32_t* largest = nullptr;  ///< bits of a non-negative float; integer comparison orders them correctly
};

/// Floats from one inverse to the next: cuBLASLt since CUDA 12.9 refuses scales that are not aligned to 16 bytes.
inline constexpr std::int64_t fp8_inverse_stride = 4;

/// Number of steps in a history.
inline constexpr std::int64_t fp8_history = 16;

BERT_HPC_DEVICE float largest_known(const float* history, std::int64_t known) {
  float largest = 0.0f;
  for (std::int64_t i = 0; i < known; ++i) largest = history[i] > largest ? history[i] : largest;
  return largest;
}

/// Stores a step's largest magnitude at `slot` of a history whose first `known` entries are known. A magnitude that is
/// not finite is replaced by the largest known one.
BERT_HPC_DEVICE void enter_magnitude(float* history, std::int64_t slot, std::int64_t known, std::uint32_t largest) {
  const bool finite = largest < 0x7F800000u;
  history[slot] = finite ? __builtin_bit_cast(float, largest) : largest_known(history, known);
}

class Fp8Scales {
 public:
  /// Scales of these layers' operands. Without `allocates` only bytes() may be called.
  Fp8Scales(std::vector<std::string> layers, bool allocates);

  std::int64_t bytes() const;
  /// Whether there is a history.
  bool known() const { return steps_ > 0; }
  Fp8Scale of(std::size_t layer, Fp8Operand operand) const;

  /// The largest magnitudes so far, of the step's x and d_y or of the weights; the caller reduces them over ranks
  /// (maximum).
  std::span<float> step_magnitudes() const { return {largest_.data(), 2 * names_.size()}; }
  std::span<float> weight_magnitudes() const { return {largest_.data() + 2 * names_.size(), names_.size()}; }

  /// Computes the weights' scales from weight_magnitudes() and resets these to zero.
  void scale_weights();
  /// Appends step_magnitudes() to the histories, resets them to zero, and computes the scales of the next step.
  void end_step();
  /// Discards the magnitudes of a skipped step.
  void forget_step();

  /// Histories as text, one line each: layer, operand, magnitudes from the oldest on. Empty if none are known.
  std::string text() const;
  /// Restores the histories of its layers from lines of any ranks' texts, and computes the scales. Throws Error(files)
  /// if a line is missing or damaged.
  void restore(const std::string& text);

 private:
  std::size_t index(std::size_t layer, Fp8Operand operand) const {
    return static_cast<std::size_t>(operand) * names_.size() + layer;
  }
  std::int64_t histories() const { return 2 * static_cast<std::int64_t>(names_.size()); }
  void make_scales(std::int64_t known);

  std::vector<std::string> names_;
  // By operand, then by layer; an inverse each fp8_inverse_stride.
  core::Buffer<float> scale_, inverse_, largest_;
  core::Buffer<float> history_;  // (x and d_y of all layers, fp8_history): ring buffers
  std::int64_t steps_ = 0;       // steps stored so far
};

}  // namespace bert_hpc::ops
