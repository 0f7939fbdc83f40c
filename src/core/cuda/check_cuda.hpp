// Errors of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {

/// Forgets a failure that the caller has handled. The runtime also keeps it as the thread's last error, which the check
/// of the next launch would report as that launch's. Errors that end the context stay.
inline void clear_last_error() {
  static_cast<void>(cudaGetLastError());
}

/// Throws Error(internal) that names the call and what CUDA says.
inline void check_cuda(cudaError_t status, const char* operation) {
  if (status == cudaSuccess) return;
  clear_last_error();  // the exception reports it
  throw Error(ExitCode::internal, std::string("CUDA failed in ") + operation + ": " + cudaGetErrorString(status) +
                                      " (" + cudaGetErrorName(status) + ").");
}

}  // namespace bert_hpc::core
