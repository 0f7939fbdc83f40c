// The check after every kernel launch. Only kernel files include this header, because it needs Kokkos.
#pragma once

#include <Kokkos_Core.hpp>
#include <string>

#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::ops::kernel {

/// Counts a launch. Throws Error(internal) if CUDA rejected it, so that the error names this kernel.
inline void after_launch(const char* label) {
  core::count_call(core::DeviceCall::kernel, label);
#if defined(KOKKOS_ENABLE_CUDA)
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) {
    throw core::Error(core::ExitCode::internal,
                      std::string("CUDA refused to start ") + label + ": " + cudaGetErrorString(status) + ".");
  }
#endif
}

}  // namespace bert_hpc::ops::kernel
