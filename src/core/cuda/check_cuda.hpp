// Errors of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {

/// Throws Error(internal) that names the call and what CUDA says.
inline void check_cuda(cudaError_t status, const char* operation) {
  if (status == cudaSuccess) return;
  throw Error(ExitCode::internal, std::string("CUDA failed in ") + operation + ": " + cudaGetErrorString(status) +
                                      " (" + cudaGetErrorName(status) + ").");
}

}  // namespace bert_hpc::core
