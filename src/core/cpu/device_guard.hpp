// The guard of device memory on CPU builds: see core/device_memory.hpp. Device memory and the host memory that kernels
// reach are two ranges of addresses of anonymous files. Device memory is mapped twice: where kernels use it, which is
// out of reach unless one runs, and at a second place for MPI, which moves data whenever it gets its turn. Telling an
// address apart is then a comparison, and opening or closing device memory is one system call.
#pragma once

#include <cstddef>

#include "bert_hpc/core/buffer.hpp"

namespace bert_hpc::core::guard {

void* allocate(std::size_t bytes, MemoryKind kind);
void free(void* pointer, std::size_t bytes, MemoryKind kind) noexcept;

}  // namespace bert_hpc::core::guard
