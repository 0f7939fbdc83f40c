// Launches of kernels that are written for CUDA. On GPUs of compute capability 9.0 the blocks of a kernel are placed
// while the last ones of the kernel before it still run (programmatic dependent launch), which hides a part of its
// start. Only kernel files include this header.
#pragma once

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "../launch_scope.hpp"
#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::ops::kernel {

inline cudaStream_t stream() {
  return static_cast<cudaStream_t>(core::kernel_stream());
}

/// The first statement of every kernel that launch() starts: waits for all kernels before it, and for their results.
__device__ inline void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

struct Grid {
  dim3 blocks;
  unsigned threads;        // of a block
  std::size_t shared = 0;  // bytes of a block's dynamic shared memory
  unsigned cluster = 1;    // blocks in y that form a cluster
};

/// Whether a kernel's code is for compute capability 9.0 or above: the code that a GPU translates from an older
/// architecture's does not wait. The same of all kernels of a program.
inline bool is_for_hopper(const void* kernel) {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
}

/// Starts a kernel. Throws Error(internal) if CUDA rejects it.
template <class... P>
void launch(const Label& label, void (*kernel)(P...), const Grid& grid, const std::type_identity_t<P>&... arguments) {
  static const bool hopper = is_for_hopper(reinterpret_cast<const void*>(kernel));
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = attributes[1].val.clusterDim.z = 1;
  attributes[1].val.clusterDim.y = grid.cluster;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = dim3(grid.threads);
  config.dynamicSmemBytes = grid.shared;
  config.stream = stream();
  config.attrs = attributes;
  config.numAttrs = !hopper ? 0 : grid.cluster > 1 ? 2 : 1;
  const LaunchScope launched(label);
  cudaLaunchKernelEx(&config, kernel, arguments...);
  launched.check();
}

}  // namespace bert_hpc::ops::kernel
#endif
