// Which attention kernels run on a GPU: the tensor cores' where these can, else the portable ones.
#pragma once

#include <string>

#include "bert_hpc/core/matrix.hpp"

namespace bert_hpc::ops::cuda {

/// `capability`: 10·major + minor of the GPU. Head sizes are those that the kernels are compiled for.
constexpr bool tensor_cores_attend(core::DataType type, std::int64_t head_dim, int capability) {
  return type != core::DataType::fp32 && capability >= 80 && (head_dim == 32 || head_dim == 64 || head_dim == 128);
}

/// What the banner calls it; head_dim 0: not known yet.
inline std::string attention_name(core::DataType type, std::int64_t head_dim, int capability) {
  if (tensor_cores_attend(type, head_dim == 0 ? 64 : head_dim, capability)) return "fused, tensor cores";
  std::string why = std::string(" for ") + core::name_of(type);
  if (tensor_cores_attend(type, 64, capability)) why = " for heads of " + std::to_string(head_dim);
  return "fused, portable kernels" + why;
}

/// Rows that kernels may copy 16 bytes at a time.
inline bool rows_are_aligned(const core::ConstMatrix& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && (x.stride * bytes_of(x.type) % 16 == 0 || x.rows <= 1);
}

}  // namespace bert_hpc::ops::cuda
