// Converts errors of the CUDA runtime to exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {

/// Clears a failure that the caller has handled. The runtime also keeps it as the thread's last error, which the check
/// of the next launch would attribute to that launch. Errors that end the context remain.
inline void clear_last_error() {
  static_cast<void>(cudaGetLastError());
}

/// Throws Error(internal) with the call and CUDA's error text.
inline void check_cuda(cudaError_t status, const char* operation) {
  if (status == cudaSuccess) return;
  clear_last_error();  // the exception reports it
  throw Error(ExitCode::internal, std::string("CUDA failed in ") + operation + ": " + cudaGetErrorString(status) +
                                      " (" + cudaGetErrorName(status) + ").");
}

}  // namespace bert_hpc::core
