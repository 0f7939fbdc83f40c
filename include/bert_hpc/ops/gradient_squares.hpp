// The squares of a gradient that clipping by the global norm needs, and the factor that follows from them, in device
// memory: an update can be launched before the host knows either.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/device.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::ops {

/// partial[b] = Σ x² over block b of norm_block elements, in double. partial (ceil(x.size() / norm_block)).
void squared_norm_blocks(std::span<const float> x, std::span<double> partial, TouchedRows marks = {});

/// A range of a gradient with its known zeros (or null), in device memory. The sums of its blocks of norm_block
/// elements are numbered from `first_block` on.
struct SquareRange {
  const float* gradient = nullptr;
  std::int64_t size = 0, first_block = 0;
  std::uint8_t* marks = nullptr;
  const core::Bf16* narrow_gradient = nullptr;  ///< the gradient, where it is stored in bf16; `gradient` is null then
};

/// Ranges whose squares are summed together: one kernel for all of them.
class SquareRanges {
 public:
  SquareRanges() = default;
  /// Their memory must outlive this.
  explicit SquareRanges(std::span<const SquareRange> ranges);

  /// squared_norm_blocks() of all ranges, each from its first_block on in `partial` (device memory); other elements
  /// stay.
  void sum(std::span<double> partial) const;

  /// Elements from `begin` on of a range: public, as nvcc wants types in kernels to be.
  struct Block {
    std::int64_t range = 0, begin = 0;
  };

 private:
  core::Buffer<SquareRange> ranges_;
  core::Buffer<Block> blocks_;
  double bytes_ = 0;  // of the ranges without marks: of others it is known on the device how much is read
};

/// What an update multiplies gradients by that are `scale` times the true ones, whose norm is `norm`: clipping as
/// torch.nn.utils.clip_grad_norm_ does, max_norm / (norm + 1e-6) and at most 1 (max_norm = 0: no clipping), and the
/// scale undone.
BERT_HPC_DEVICE float clipping_factor(double norm, double max_norm, double scale) {
  const double limit = max_norm / (norm + 1e-6);
  const double clip = max_norm > 0 && limit < 1.0 ? limit : 1.0;
  return static_cast<float>(clip / scale);
}

/// What makes up clipping_factor(), in device memory.
struct ClippingSums {
  const double* partial = nullptr;  ///< (partials): sums of squares of the gradient
  std::int64_t partials = 0;
  const double* losses = nullptr;  ///< (micro_batches): sums of losses
  std::int64_t micro_batches = 0;
  double targets = 1;  ///< that the losses are summed over
};

/// squares[0] = Σ partial, in a fixed order (on CPUs one after the other); factor[0] = clipping_factor() of its root
/// divided by `scale`, or NaN if this root or the mean loss is not finite: then nothing is to be updated. One
/// kernel; all in device memory.
void sum_and_clip(const ClippingSums& sums, double max_norm, double scale, double* squares, float* factor);

}  // namespace bert_hpc::ops
