// The choice of attention kernels on a GPU: those for tensor cores if possible, otherwise the portable ones.
#pragma once

#include <string>

#include "attention_backward_sequence.hpp"
#include "bert_hpc/core/matrix.hpp"

namespace bert_hpc::ops::cuda {

/// `capability`: 10·major + minor of the GPU. The kernels are compiled for these head sizes, each for every type.
constexpr bool tensor_cores_attend(std::int64_t head_dim, int capability) {
  return capability >= 80 && (head_dim == 32 || head_dim == 64 || head_dim == 128);
}

/// The name in the banner; head_dim 0: not yet known.
inline std::string attention_name(core::DataType type, bool tf32, std::int64_t head_dim, int capability) {
  if (tensor_cores_attend(head_dim == 0 ? 64 : head_dim, capability)) {
    const char* floats = tf32 ? ", TF32" : ", 3xTF32";
    return std::string("fused, tensor cores") + (type == core::DataType::fp32 ? floats : "");
  }
  std::string why = " for GPUs without TF32";
  if (tensor_cores_attend(64, capability)) why = " for heads of " + std::to_string(head_dim);
  return "fused, portable kernels" + why;
}

/// Number of 64-key tiles of dropout decisions that these kernels store per head (ops/attention.hpp).
constexpr std::int64_t dropout_tiles_of(std::int64_t max_length) {
  return (max_length + 63) / 64;
}

/// The kernels that compute d_q, d_k and d_v: separate ones for queries and keys, or one with a block per sequence.
enum class BackwardKernel { split, four_warps, eight_warps, eight_warps_small };

template <int D>
using FourWarps = SequenceShape<D, 4, 64>;
template <int D>
using EightWarps = SequenceShape<D, 8, 64>;
using EightWarpsSmall = SequenceShape<64, 8, 32>;

/// The first of these kernels that fits `most` bytes of shared memory per block. If one tile of four warps holds all
/// keys, two blocks share a multiprocessor, so that one computes while the other waits. Eight warps read less for d_q
/// with tiles of 64 queries; tiles of 32 leave room for longer sequences of heads of 64. With heads of 128 a warp has
/// registers for only 16 keys, so there would be no saving.
template <int D>
constexpr BackwardKernel sequence_kernel(std::int64_t max_length, std::int64_t most) {
  if (max_length <= FourWarps<D>::keys && FourWarps<D>::shared_bytes(max_length) <= most) {
    return BackwardKernel::four_warps;
  }
  if (EightWarps<D>::shared_bytes(max_length) <= most) return BackwardKernel::eight_warps;
  if (D == 64 && EightWarpsSmall::shared_bytes(max_length) <= most) return BackwardKernel::eight_warps_small;
  return BackwardKernel::split;
}

/// Tiles of floats for a whole sequence do not fit shared memory.
constexpr BackwardKernel backward_kernel(core::DataType type, std::int64_t head_dim, std::int64_t max_length,
                                         std::int64_t most) {
  if (type == core::DataType::fp32) return BackwardKernel::split;
  if (head_dim == 32) return sequence_kernel<32>(max_length, most);
  if (head_dim == 64) return sequence_kernel<64>(max_length, most);
  return BackwardKernel::split;
}

/// Whether kernels can copy the rows 16 bytes at a time.
inline bool rows_are_aligned(const core::ConstMatrix& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && (x.stride * bytes_of(x.type) % 16 == 0 || x.rows <= 1);
}

}  // namespace bert_hpc::ops::cuda
